package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/inspect"
	"github.com/tare-bench/tare/internal/text/term"
	"github.com/tare-bench/tare/internal/text/unit"
)

// writeImages prints what is in images: a column for each.
func writeImages(w io.Writer, c inspect.Comparison, width int) error {
	term.WriteTable(w, overview(c), width)
	fmt.Fprintln(w, "\nLayers, bottom first")
	term.WriteTable(w, layerRows(c), width)
	for _, r := range c.Images {
		for _, n := range r.Notes {
			term.WriteWrapped(w, "! ", r.Ref+": "+n, width)
		}
	}
	if len(c.Images) > 1 {
		writeDifferences(w, c, width)
	}
	return nil
}

// overview has a line for each fact.
func overview(c inspect.Comparison) [][]string {
	rows := [][]string{
		{"image"},
		{"digest"},
		{"platform"},
		{"created"},
		{"compressed"},
		{"unpacked"},
		{"files"},
		{"layers"},
		{"shared"},
		{"system"},
		{"libc"},
		{"user"},
		{"entry point"},
		{"command"},
		{"directory"},
		{"ports"},
		{"volumes"},
		{"environment"},
	}
	for i, r := range c.Images {
		for n, cell := range []string{
			r.Ref, shortDigest(r.Digest), r.Platform, createdText(r.Created), compressedText(r), bytesText(r.Unpacked),
			filesText(r), fmt.Sprint(len(r.Layers)), sharedText(c, i), r.System, libcText(r),
			cmp.Or(r.Config.User, "root"), inspect.QuoteArgs(r.Config.Entrypoint), inspect.QuoteArgs(r.Config.Cmd),
			cmp.Or(r.Config.Dir, "/"),
			strings.Join(r.Config.Ports, " "), strings.Join(r.Config.Volumes, " "), strings.Join(r.Config.Env, " "),
		} {
			rows[n] = append(rows[n], cmp.Or(cell, "–"))
		}
	}
	if len(c.Images) == 1 {
		rows = slices.DeleteFunc(rows, func(row []string) bool { return row[0] == "shared" })
	}
	return rows
}

// shortDigest is enough of a digest to tell images apart.
func shortDigest(d string) string {
	algorithm, hex, _ := strings.Cut(d, ":")
	return algorithm + ":" + hex[:min(12, len(hex))]
}

func createdText(t time.Time) string {
	if t.Unix() <= 0 {
		return "" // made the same every time
	}
	return t.UTC().Format("2006-01-02 15:04")
}

func bytesText(n int64) string { return unit.Format(float64(n), unit.Bytes) }

// compressedText marks a size with "~" that includes layers which are stored
// uncompressed, and were compressed to learn it.
func compressedText(r *inspect.Report) string {
	if slices.ContainsFunc(r.Layers, func(l inspect.Layer) bool { return l.Compression == image.Plain }) {
		return "~" + bytesText(r.Compressed)
	}
	return bytesText(r.Compressed)
}

func filesText(r *inspect.Report) string {
	return fmt.Sprintf("%d, %d links, %d directories", r.Files, r.Links, r.Dirs)
}

// sharedText says how much of an image others have too.
func sharedText(c inspect.Comparison, image int) string {
	n, sum := 0, int64(0)
	for _, l := range c.Shared {
		if slices.Contains(l.Images, image) {
			n, sum = n+1, sum+l.Bytes
		}
	}
	if n == 0 {
		return "none"
	}
	return unit.FormatCount(n, "layer") + ", " + bytesText(sum)
}

func libcText(r *inspect.Report) string {
	var all []string
	for _, l := range r.Libc {
		all = append(all, strings.TrimSpace(l.Name+" "+l.Version))
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

// layerRows has a line for each layer of each image.
func layerRows(c inspect.Comparison) [][]string {
	rows := [][]string{{"LAYER", "STORED", "COMPRESSION", "UNPACKED", "FILES", "IMAGE"}}
	for i, r := range c.Images {
		for _, l := range r.Layers {
			in := fmt.Sprint(i + 1)
			at := slices.IndexFunc(c.Shared, func(s inspect.SharedLayer) bool { return s.DiffID == l.DiffID })
			if at >= 0 {
				if c.Shared[at].Images[0] != i {
					continue // listed with the first
				}
				in = oneBased(c.Shared[at].Images)
			}
			rows = append(rows,
				[]string{
					shortDigest(l.DiffID), bytesText(l.Stored), string(l.Compression), bytesText(l.Unpacked), fmt.Sprint(l.Files), in,
				})
		}
	}
	return rows
}

// oneBased counts images as people do.
func oneBased(images []int) string {
	var all []string
	for _, i := range images {
		all = append(all, fmt.Sprint(i+1))
	}
	return strings.Join(all, " ")
}

// writeDifferences lists the settings that differ between images.
func writeDifferences(w io.Writer, c inspect.Comparison, width int) {
	fmt.Fprintln(w, "\nDifferent settings")
	if len(c.Config) == 0 {
		fmt.Fprintln(w, "  none")
		return
	}
	head := []string{"SETTING"}
	for i := range c.Images {
		head = append(head, fmt.Sprintf("IMAGE %d", i+1))
	}
	rows := [][]string{head}
	for _, d := range c.Config {
		row := []string{d.What}
		for _, v := range d.Values {
			row = append(row, cmp.Or(v, "–"))
		}
		rows = append(rows, row)
	}
	term.WriteTable(w, rows, width)
}
