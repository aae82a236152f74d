// Command schemagen writes what is generated from the table of an
// experiment's keys: docs/experiment.schema.json, and the tables in
// docs/experiment.md. Its argument is the directory of the docs.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tare-bench/tare/internal/experiment"
)

func main() {
	dir := "docs"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := generate(dir); err != nil {
		fmt.Fprintln(os.Stderr, "schemagen:", err)
		os.Exit(1)
	}
}

func generate(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "experiment.schema.json"), experiment.Schema(), 0o644); err != nil {
		return err
	}
	name := filepath.Join(dir, "experiment.md")
	page, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	begin, end := []byte("<!-- keys: generated -->\n"), []byte("<!-- end of keys -->\n")
	before, rest, ok := bytes.Cut(page, begin)
	_, after, ended := bytes.Cut(rest, end)
	if !ok || !ended {
		return fmt.Errorf("%s: the marks around the generated tables are missing", name)
	}
	page = bytes.Join([][]byte{before, begin, []byte("\n"), experiment.Reference(), end, after}, nil)
	return os.WriteFile(name, page, 0o644)
}
