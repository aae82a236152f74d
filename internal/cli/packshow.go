package cli

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/inspect"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/term"
)

// packed is what was packed, as --json prints it.
type packed struct {
	Digest  string       `json:"digest"` // of the configuration: the image's ID
	Tag     string       `json:"tag"`
	Program string       `json:"program"`
	Argv    []string     `json:"argv"`
	Env     []string     `json:"env"`
	Dir     string       `json:"dir"`
	Ports   []string     `json:"ports,omitempty"`
	Layer   int64        `json:"layer_bytes"` // uncompressed, as it is stored
	Bytes   int64        `json:"file_bytes"`  // of all files
	Files   []packedFile `json:"files"`
	Links   int          `json:"links"`
	SetID   bool         `json:"set_id_lost,omitempty"`
	Written string       `json:"written,omitempty"` // a reference
	Loaded  []string     `json:"loaded,omitempty"`  // engines
}

// packedFile is a file that was taken from this machine, or that tare has written.
type packedFile struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	Made  bool   `json:"made,omitempty"` // by tare
	By    string `json:"needed_by,omitempty"`
	Part  string `json:"part_of,omitempty"` // the directory that it came with
}

// describe lists what is in the image, and why.
func describe(img *image.Image, tag string) *packed {
	set := img.Packed()
	out := &packed{
		Digest: img.Digest(), Tag: tag, Program: set.Program,
		Argv: slices.Concat(set.Process.Entrypoint, set.Process.Cmd), Env: img.Env(), Dir: img.WorkingDir(),
		Ports: set.Process.Ports, Layer: img.Stored(), SetID: set.SetID, Files: []packedFile{},
	}
	for _, e := range set.Entries {
		out.Bytes += e.Size
		switch e.Mode.Type() {
		case fs.ModeSymlink:
			out.Links++
		case 0:
			out.Files = append(out.Files, packedFile{e.Path, e.Size, e.Made(), e.Wanted, e.Part})
		}
	}
	return out
}

// printPacked tells what was packed.
func (a *invocation) printPacked(p *packed) error {
	if a.global.JSON {
		return a.printJSON(p)
	}
	out := a.stdout
	writeFiles(out, p.Files, a.lineWidth())
	made := p.generatedFiles()
	fmt.Fprintf(out, "\n%d files of this machine, %d written by tare, %d links: %s; layer: %s\n",
		len(p.Files)-made, made, p.Links, bytesText(p.Bytes), bytesText(p.Layer))
	fmt.Fprintf(out, "image  %s\nruns   %s\n", p.Digest, plain.Line(inspect.QuoteArgs(p.Argv)))
	if len(p.Ports) > 0 {
		fmt.Fprintf(out, "ports  %s\n", plain.Line(strings.Join(p.Ports, " ")))
	}
	if p.Written != "" {
		fmt.Fprintf(out, "wrote  %s\n", plain.Line(p.Written))
	}
	for _, engine := range p.Loaded {
		fmt.Fprintf(out, "loaded %s into %s\n", plain.Line(p.Tag), engine)
	}
	if p.SetID {
		a.notice("a program is set-user-ID or set-group-ID here, but not in the image")
	}
	if p.Written == "" && len(p.Loaded) == 0 {
		a.notice("nothing was written; use -o FILE or --load ENGINE to keep the image")
	}
	return nil
}

// generatedFiles is how many of the files tare has written.
func (p *packed) generatedFiles() (n int) {
	for _, f := range p.Files {
		if f.Made {
			n++
		}
	}
	return n
}

// writeFiles writes a line for each file, and one for all that came with a
// directory.
func writeFiles(w io.Writer, files []packedFile, width int) {
	rows := [][]string{{"SIZE", "PATH", "NEEDED BY"}}
	for _, f := range groupByPart(files) {
		by := cmp.Or(f.By, "–")
		if f.Made {
			by = strings.TrimPrefix(f.By+", ", ", ") + "written by tare"
		}
		rows = append(rows, []string{bytesText(f.Bytes), f.Path, by})
	}
	term.WriteTable(w, rows, width)
}

// groupByPart joins the files that came with a directory into one row, in place of the first.
func groupByPart(files []packedFile) (rows []packedFile) {
	row := map[string]int{}
	count := map[string]int{}
	for _, f := range files {
		at, known := row[f.Part]
		switch {
		case f.Part == "":
			rows = append(rows, f)
			continue
		case !known:
			at = len(rows)
			row[f.Part] = at
			rows = append(rows, packedFile{By: f.By})
		}
		count[f.Part]++
		rows[at].Bytes += f.Bytes
		rows[at].Path = fmt.Sprintf("%s/ (%d files)", strings.TrimSuffix(f.Part, "/"), count[f.Part])
	}
	return rows
}
