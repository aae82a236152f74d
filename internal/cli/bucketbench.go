package cli

import (
	"io"

	"github.com/tare-bench/tare/internal/experiment/bucketbench"
)

// source reads an experiment, or makes one of a file for bucketbench.
func (a *invocation) source(name string) (file string, data []byte, err error) {
	file, data, err = a.experimentSource(name)
	if err != nil || !bucketbench.Recognise(data) {
		return file, data, err
	}
	e, err := a.convert(file, data)
	if err != nil {
		return "", nil, err
	}
	// Whatever is wrong with the experiment is not in a line of the file.
	return file + " as an experiment", e.YAML(), nil
}

// convert makes an experiment of a file for bucketbench, and says what does not
// mean the same.
func (a *invocation) convert(file string, data []byte) (bucketbench.Experiment, error) {
	e, notes, err := bucketbench.Convert(file, data)
	switch {
	case err != nil && !bucketbench.Recognise(data):
		return e, &usageError{err, "a file for bucketbench has the keys drivers and commands; an experiment of tare's own is run as it is"}
	case err != nil:
		return e, &usageError{err: err}
	}
	a.notice("%s is a file for bucketbench; what does not mean the same here:", file)
	for _, n := range notes {
		a.notice("  %s", n)
	}
	return e, nil
}

// converted is a file for bucketbench as --json prints it.
type converted struct {
	Experiment string             `json:"experiment"` // YAML
	Notes      []bucketbench.Note `json:"notes"`      // what does not mean the same
}

// importBucketbench writes the experiment that does the work of a file for
// bucketbench. Nothing is stored: its results are not for import.
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
