package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/pack"
	"github.com/tare-bench/tare/internal/plain"
	"github.com/tare-bench/tare/internal/term"
	"github.com/tare-bench/tare/internal/unit"
)

// packed is what was packed, as --json prints it.
type packed struct {
	Digest  string       `json:"digest"` // of the configuration: the image's ID
	Tag     string       `json:"tag"`
	Program string       `json:"program"`
	Argv    []string     `json:"argv"`
	Env     []string     `json:"env"`
	User    string       `json:"user,omitempty"`
	Dir     string       `json:"dir"`
	Ports   []string     `json:"ports,omitempty"`
	Layer   int64        `json:"layer_bytes"` // uncompressed, as it is stored
	Bytes   int64        `json:"file_bytes"`  // of all files
	Files   []packedFile `json:"files"`
	Links   int          `json:"links"`
	Owners  bool         `json:"packages_known"` // there is a database of packages
	SetID   bool         `json:"set_id_lost,omitempty"`
	Scripts []string     `json:"scripts,omitempty"`
	Written string       `json:"written,omitempty"` // a reference
	Loaded  []string     `json:"loaded,omitempty"`  // engines
}

// packedFile is a file that was taken from this machine, or that tare has written.
type packedFile struct {
	Path    string `json:"path"`
	Bytes   int64  `json:"bytes"`
	Made    bool   `json:"made,omitempty"` // by tare
	Package string `json:"package,omitempty"`
	By      string `json:"needed_by,omitempty"`
	Part    string `json:"part_of,omitempty"` // the directory that it came with
}

// describe says what is in the image, and where it comes from.
func describe(ctx context.Context, img *image.Image, tag string) (*packed, error) {
	set := img.Packed()
	owners, known, err := pack.Host{}.Packages(ctx, set.Taken())
	if err != nil {
		return nil, fmt.Errorf("ask which packages own the files: %w", err)
	}
	out := &packed{
		Digest: img.Digest(), Tag: tag, Program: set.Program,
		Argv: slices.Concat(set.Process.Entrypoint, set.Process.Cmd), Env: img.Env(), User: img.User(), Dir: img.WorkingDir(), Ports: set.Process.Ports,
		Layer: img.Stored(), Owners: known, SetID: set.SetID, Scripts: set.Scripts, Files: []packedFile{},
	}
	for _, e := range set.Entries {
		out.Bytes += e.Size
		switch e.Mode.Type() {
		case fs.ModeSymlink:
			out.Links++
		case 0:
			out.Files = append(out.Files, packedFile{e.Path, e.Size, e.Made(), owners[e.Origin], e.Wanted, e.Part})
		}
	}
	return out, nil
}

// printPacked tells what was packed; on stderr where the image is on stdout.
func (a *app) printPacked(p *packed, aside bool) error {
	var out io.Writer = a.stdout
	width := a.lineWidth()
	switch {
	case aside:
		out, width = a.stderr, term.Unlimited
	case a.global.JSON:
		return a.printJSON(p)
	}
	writeFiles(out, p.Files, width)
	made := p.made()
	fmt.Fprintf(out, "\n%d files of this machine, %d written by tare and %d links, %s; the layer has %s\n",
		len(p.Files)-made, made, p.Links, bytesOf(p.Bytes), bytesOf(p.Layer))
	fmt.Fprintf(out, "image  %s\nruns   %s\n", p.Digest, plain.Line(commandLine(p.Argv)))
	if p.User != "" {
		fmt.Fprintf(out, "as     %s\n", plain.Line(p.User))
	}
	if len(p.Ports) > 0 {
		fmt.Fprintf(out, "ports  %s\n", plain.Line(strings.Join(p.Ports, " ")))
	}
	if p.Written != "" {
		fmt.Fprintf(out, "wrote  %s\n", plain.Line(p.Written))
	}
	for _, engine := range p.Loaded {
		fmt.Fprintf(out, "loaded %s into %s\n", plain.Line(p.Tag), engine)
	}
	a.noticePacked(p, aside)
	return nil
}

// made is how many of the files tare has written.
func (p *packed) made() (n int) {
	for _, f := range p.Files {
		if f.Made {
			n++
		}
	}
	return n
}

// noticePacked says what the user may not expect.
func (a *app) noticePacked(p *packed, aside bool) {
	for _, script := range p.Scripts {
		a.notice("%s is a script: what it runs and reads is not packed with it; name that too, as PROGRAM or --file", script)
	}
	if p.SetID {
		a.notice("a program is set-user-ID or set-group-ID here, and not in the image")
	}
	if !p.Owners {
		a.notice("packages are not known: there is neither dpkg nor rpm with a database")
	}
	if p.Written == "" && len(p.Loaded) == 0 && !aside {
		a.notice("nothing was written: -o FILE or --load ENGINE keeps the image")
	}
}

// writeFiles writes a line for each file, and one for all that came with a
// directory.
func writeFiles(w io.Writer, files []packedFile, width int) {
	rows := [][]string{{"SIZE", "PATH", "PACKAGE", "NEEDED BY"}}
	for _, f := range gathered(files) {
		rows = append(rows, []string{bytesOf(f.Bytes), f.Path, f.from(), cmp.Or(f.By, "–")})
	}
	term.WriteTable(w, rows, width)
}

// from is where a file comes from: a package, if it is known.
func (f packedFile) from() string {
	if f.Made {
		return "written by tare"
	}
	return cmp.Or(f.Package, "–")
}

// gathered makes one of the files that came with a directory, where the first was.
func gathered(files []packedFile) (rows []packedFile) {
	type group struct {
		row      int
		count    int
		packages []string
	}
	groups := map[string]*group{}
	for _, f := range files {
		g := groups[f.Part]
		switch {
		case f.Part == "":
			rows = append(rows, f)
			continue
		case g == nil:
			g = &group{row: len(rows)}
			groups[f.Part] = g
			rows = append(rows, packedFile{By: f.By})
		}
		g.count++
		if f.Package != "" && !slices.Contains(g.packages, f.Package) {
			g.packages = append(g.packages, f.Package)
		}
		r := &rows[g.row]
		r.Bytes += f.Bytes
		r.Path = fmt.Sprintf("%s/ (%d files)", strings.TrimSuffix(f.Part, "/"), g.count)
		r.Package = strings.Join(g.packages, ", ")
	}
	return rows
}

func bytesOf(n int64) string { return unit.Format(float64(n), "B") }

// commandLine writes words as a shell would read them.
func commandLine(argv []string) string {
	var out []string
	for _, w := range argv {
		if w == "" || strings.ContainsAny(w, " \t\n\"'\\$;*?&|<>()[]{}~#`!") {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}
