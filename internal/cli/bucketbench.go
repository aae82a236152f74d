package cli

import (
	"io"

	"github.com/tare-bench/tare/internal/experiment/bucketbench"
)

// source reads an experiment, or converts a bucketbench file to one.
func (a *invocation) source(name string) (file string, data []byte, err error) {
	file, data, err = a.experimentSource(name)
	if err != nil || !bucketbench.Recognise(data) {
		return file, data, err
	}
	e, err := a.convert(file, data)
	if err != nil {
		return "", nil, err
	}
	// Later errors name lines of the experiment, not of the file.
	return file + " as an experiment", e.YAML(), nil
}

// convert makes an experiment of a bucketbench file, and tells the differences in meaning.
func (a *invocation) convert(file string, data []byte) (bucketbench.Experiment, error) {
	e, notes, err := bucketbench.Convert(file, data)
	switch {
	case err != nil && !bucketbench.Recognise(data):
		return e, &usageError{err, "a bucketbench file has the keys drivers and commands; tare runs its own experiments " +
			"as they are"}
	case err != nil:
		return e, &usageError{err: err}
	}
	a.notice("%s is a bucketbench file; differences in meaning:", file)
	for _, n := range notes {
		a.notice("  %s", n)
	}
	return e, nil
}

// converted is a converted bucketbench file as --json prints it.
type converted struct {
	Experiment string             `json:"experiment"` // YAML
	Notes      []bucketbench.Note `json:"notes"`      // differences in meaning
}

// importBucketbench writes the experiment that does the work of a bucketbench file. It
// stores nothing: bucketbench's results cannot be imported.
func (a *invocation) importBucketbench(name, output string) error {
	file, data, err := a.experimentSource(name)
	if err != nil {
		return err
	}
	e, err := a.convert(file, data)
	if err != nil {
		return err
	}
	if a.global.JSON {
		err = a.printJSON(converted{string(e.YAML()), e.Notes})
	}
	if err != nil || a.global.JSON && output == "-" {
		return err
	}
	return a.toFile(output, func(w io.Writer) error {
		_, err := w.Write(e.YAML())
		return err
	})
}
