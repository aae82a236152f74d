// Command clidoc writes what is made from the command line's code: the reference pages in
// the docs, and for installation the manual pages and the completions of shells.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tare-bench/tare/internal/cli"
	"github.com/tare-bench/tare/internal/cli/manual"
)

const usage = `usage: clidoc docs DIRECTORY
       clidoc install DIRECTORY VERSION`

func main() {
	err := errors.New(usage)
	switch args := os.Args[1:]; {
	case len(args) == 2 && args[0] == "docs":
		err = writeDocs(args[1])
	case len(args) == 3 && args[0] == "install":
		err = writeInstalled(args[1], args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "clidoc:", err)
		os.Exit(1)
	}
}

// writeDocs writes docs/cli, the lists of metrics and options, and the table of exit codes.
func writeDocs(docs string) error {
	err := manual.WriteMarkdown(cli.Command(), filepath.Join(docs, "cli"))
	for name, page := range map[string][]byte{"metrics.md": cli.MetricsPage(), "params.md": cli.ParamsPage()} {
		err = errors.Join(err, os.WriteFile(filepath.Join(docs, name), page, 0o644))
	}
	return errors.Join(err, writeExitCodes(filepath.Join(docs, "report-format.md")))
}

// writeExitCodes puts the table into a page, between two marks.
func writeExitCodes(name string) error {
	page, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	begin, end := []byte("<!-- exit codes: generated -->\n"), []byte("<!-- end of exit codes -->\n")
	before, rest, ok := bytes.Cut(page, begin)
	_, after, ended := bytes.Cut(rest, end)
	if !ok || !ended {
		return fmt.Errorf("%s: the marks around the table of exit codes are missing", name)
	}
	page = bytes.Join([][]byte{before, begin, []byte("\n"), cli.ExitCodesTable(), []byte("\n"), end, after}, nil)
	return os.WriteFile(name, page, 0o644)
}

// writeInstalled writes manual pages to man and completions to completions, as their
// places want them to be called.
func writeInstalled(dir, version string) error {
	man, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	// Pages of commands that are gone must not be installed.
	err := errors.Join(os.RemoveAll(man), os.MkdirAll(man, 0o755), os.MkdirAll(completions, 0o755))
	if err != nil {
		return err
	}
	root := cli.Command()
	return errors.Join(
		manual.WriteMan(root, man, version),
		root.GenBashCompletionFileV2(filepath.Join(completions, "tare"), true),
		root.GenZshCompletionFile(filepath.Join(completions, "_tare")),
		root.GenFishCompletionFile(filepath.Join(completions, "tare.fish"), true),
	)
}
