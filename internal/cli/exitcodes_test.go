package cli

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestExitCodes holds the table in the docs to the constants of the code.
func TestExitCodes(t *testing.T) {
	page, err := os.ReadFile("../../docs/report-format.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), string(ExitCodesTable())) {
		t.Error("docs/report-format.md has another table of exit codes than the code: make generate")
	}
	var documented []string
	for line := range strings.Lines(string(ExitCodesTable())) {
		if cells := strings.Split(line, "|"); len(cells) > 3 && strings.ContainsAny(cells[1], "0123456789") {
			documented = append(documented, strings.TrimSpace(cells[1]))
			if strings.TrimSpace(cells[2]) == "" {
				t.Errorf("exit code %s has no meaning", cells[1])
			}
		}
	}
	values := map[string]int{
		"exitOK": exitOK, "exitFailed": exitFailed, "exitUsage": exitUsage, "exitTrials": exitTrials,
		"exitUnsupported": exitUnsupported, "exitInterrupted": exitInterrupted, "exitPipe": exitPipe,
		"exitWorse": exitWorse, "exitUndecided": exitUndecided,
	}
	names := exitConstants(t)
	for _, name := range names {
		v, ok := values[name]
		if !ok {
			t.Errorf("%s is an exit code that this test does not know: add it here and to exitCodes", name)
			continue
		}
		if !slices.Contains(documented, fmt.Sprint(v)) {
			t.Errorf("%s = %d is not in the table", name, v)
		}
	}
	if len(documented) != len(names) {
		t.Errorf("the table has %q, the code %q", documented, names)
	}
}

// exitConstants are the names of the constants that are exit codes.
func exitConstants(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				for _, name := range s.(*ast.ValueSpec).Names {
					if strings.HasPrefix(name.Name, "exit") && name.Name != "exitCodes" {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}
