// Package bucketbench reads the files of bucketbench, a benchmark of container
// engines that is no longer worked on, and makes tare experiments of them.
//
// The meaning of keys and commands comes from what bucketbench's drivers do, not
// from its documentation. A note names each difference in meaning.
package bucketbench

import (
	"cmp"
	"slices"

	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

// Recognise reports whether data is a bucketbench file, valid or not, and not an
// experiment. It looks only at the keys at the top.
func Recognise(data []byte) bool {
	root, _, _ := yamldoc.Read("", data, hints()) // one that is broken further down is recognised too
	has := func(names ...string) bool {
		return slices.ContainsFunc(root.Fields, func(f yamldoc.Field) bool { return slices.Contains(names, f.Name) })
	}
	return has("drivers", "commands") && !has("workload", "factors", "cells")
}

// Convert reads a file for bucketbench, of version 0.4 or of those of 2017, and
// returns the experiment that does the same work. name is the file's, for
// errors and for the comment in the experiment. The notes are in the order of
// the file. The error is a *yamldoc.Error with everything that is wrong: what
// is no such file, and what could not have run with bucketbench either.
func Convert(name string, data []byte) (Experiment, []yamldoc.Note, error) {
	root, src, err := yamldoc.Read(name, data, hints())
	if err != nil {
		return Experiment{}, nil, err
	}
	r := &reader{yamldoc.Problems{Source: src}}
	f := r.file(root)
	if err := r.Err(); err != nil {
		return Experiment{}, nil, err
	}
	c := converter{reader: r, file: f}
	e := c.experiment()
	if err := r.Err(); err != nil {
		return Experiment{}, nil, err
	}
	slices.SortStableFunc(c.notes, func(a, b yamldoc.Note) int { return cmp.Compare(a.Line, b.Line) })
	e.Source, e.Notes = name, c.notes
	return e, c.notes, nil
}

func hints() yamldoc.Hints {
	return yamldoc.Hints{MultipleDocuments: "bucketbench reads only the first one: remove the others"}
}
