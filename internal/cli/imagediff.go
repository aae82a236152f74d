package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/image/inspect"
	"github.com/tare-bench/tare/internal/term"
)

// writeDifferences says what is in one image alone, and what is not the same.
func writeDifferences(w io.Writer, c inspect.Comparison, width int) {
	fmt.Fprintln(w, "\nWhat differs")
	if len(c.Packages)+len(c.Config)+len(c.Files) == 0 {
		term.WriteHanging(w, "  ", 4, "neither packages, files nor configuration"+unlikeLayers(c.Images), width)
		return
	}
	line := func(what string, count int, names string) {
		if count > 0 {
			term.WriteHanging(w, "  ", 4, fmt.Sprintf("%s (%d): %s", what, count, names), width)
		}
	}
	for i, r := range c.Images {
		only := packagesOnly(c.Packages, i)
		line("packages only in "+r.Ref, len(only), strings.Join(only, ", "))
	}
	for i, r := range c.Images {
		only := pathsOnly(c.Files, i)
		line("files only in "+r.Ref, len(only), few(only))
	}
	unlike := pathsOnly(c.Files, -1)
	line("files that are not the same", len(unlike), few(unlike))
	writeChanges(w, c, width)
}

// unlikeLayers says why images differ of which nothing else says so; nothing if their
// layers are the same.
func unlikeLayers(images []*inspect.Report) string {
	same := func(a, b inspect.Layer) bool { return a.DiffID == b.DiffID }
	for _, r := range images {
		if !slices.EqualFunc(r.Layers, images[0].Layers, same) {
			return "; layers do: in times, in directories, or in how files are spread over them"
		}
	}
	return ""
}

// packagesOnly are the packages that one image alone has, with their versions.
func packagesOnly(packages []inspect.Difference, image int) (names []string) {
	for _, d := range packages {
		if d.OnlyIn() == image {
			names = append(names, d.What+" "+d.Values[image])
		}
	}
	return names
}

// pathsOnly are the files that one image alone has; with -1, that several have.
func pathsOnly(files []inspect.Difference, image int) (paths []string) {
	for _, d := range files {
		if d.OnlyIn() == image {
			paths = append(paths, d.What)
		}
	}
	return paths
}

// few joins names, and says how many more there are than it names.
func few(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// writeChanges lists the packages that several images have in versions of their
// own, and the settings that are not the same.
func writeChanges(w io.Writer, c inspect.Comparison, width int) {
	head := []string{"PACKAGE OR SETTING"}
	for i := range c.Images {
		head = append(head, fmt.Sprintf("IMAGE %d", i+1))
	}
	rows := [][]string{head}
	for _, d := range c.Packages {
		if d.OnlyIn() < 0 {
			rows = append(rows, differenceRow(d))
		}
	}
	for _, d := range c.Config {
		rows = append(rows, differenceRow(d))
	}
	if len(rows) > 1 {
		fmt.Fprintln(w)
		term.WriteTable(w, rows, width)
	}
}

func differenceRow(d inspect.Difference) []string {
	row := []string{d.What}
	for _, v := range d.Values {
		row = append(row, cmp.Or(v, "–"))
	}
	return row
}
