package experiment

import (
	"embed"
	"fmt"
	"io/fs"
	"time"
)

// A Summary is what a list shows of a built-in experiment.
type Summary struct {
	Name   string
	Doc    string
	Budget time.Duration // after which no block begins; 0 = none
}

//go:embed builtin/*.yaml
var builtins embed.FS

// Builtin returns the YAML of a built-in experiment, and whether there is one
// of that name.
func Builtin(name string) ([]byte, bool) {
	data, err := builtins.ReadFile("builtin/" + name + ".yaml")
	return data, err == nil
}

// Builtins lists the built-in experiments, in the order of their names.
func Builtins() []Summary {
	files, err := fs.Glob(builtins, "builtin/*.yaml")
	if err != nil {
		panic(fmt.Sprintf("built-in experiments: %v", err)) // the pattern is a constant
	}
	out := make([]Summary, len(files))
	for i, name := range files {
		out[i] = summary(name)
	}
	return out
}

// summary panics if the file does not parse: it is part of the program, and a
// test reads each.
func summary(name string) Summary {
	data, err := builtins.ReadFile(name)
	if err != nil {
		panic(err)
	}
	e, err := Parse(name, data)
	if err != nil {
		panic(err)
	}
	return Summary{e.Name(), e.Doc(), e.file.budget.or(defaultBudget)}
}
