// Typecheck says what the compiler would refuse if the program were built for another architecture:
//
//	go run -C tools ./typecheck arm64 ./cmd/tare
//
// It reads the types of all libraries from their sources, without the bodies of their functions. To compile them
// takes ten times as long, and a change breaks none of them.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: go run -C tools ./typecheck ARCHITECTURE PACKAGE...")
		os.Exit(2)
	}
	tree, err := filepath.Abs("..")
	if err != nil {
		fmt.Fprintln(os.Stderr, "typecheck:", err)
		os.Exit(1)
	}
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.LoadAllSyntax | packages.NeedModule,
		Dir:  tree,
		Env:  append(os.Environ(), "GOOS=linux", "GOARCH="+os.Args[1], "CGO_ENABLED=0", "GOFLAGS="),
		ParseFile: func(files *token.FileSet, name string, source []byte) (*ast.File, error) {
			f, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
			if f != nil && !strings.HasPrefix(name, tree+string(filepath.Separator)) {
				dropBodies(f)
			}
			return f, err
		},
	}, os.Args[2:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "typecheck:", err)
		os.Exit(1)
	}
	found, ours := 0, 0
	packages.Visit(loaded, nil, func(p *packages.Package) {
		if p.Module == nil || !p.Module.Main {
			return // without bodies a library seems not to use what it imports
		}
		ours++
		for _, e := range p.Errors {
			fmt.Fprintf(os.Stderr, "typecheck: %s: %v\n", os.Args[1], e)
			found++
		}
	})
	if found > 0 || ours == 0 {
		fmt.Fprintf(os.Stderr, "typecheck: %d errors in %d packages\n", found, ours)
		os.Exit(1)
	}
}

func dropBodies(f *ast.File) {
	for _, d := range f.Decls {
		if d, ok := d.(*ast.FuncDecl); ok {
			d.Body = nil
		}
	}
}
