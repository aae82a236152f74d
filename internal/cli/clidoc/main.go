// Command clidoc writes the reference pages of the command line.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"

	"github.com/tare-bench/tare/internal/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: clidoc DIRECTORY")
		os.Exit(2)
	}
	if err := doc.GenMarkdownTree(cli.Command(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "clidoc:", err)
		os.Exit(1)
	}
}
