package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/tare-bench/tare/internal/experiment/bucketbench"
	"github.com/tare-bench/tare/internal/experiment/pgbenchtools"
	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

// A converter makes an experiment of another program's file.
type converter struct {
	name string // as --from takes it
	what string // such a file, with its article
	// recognise reports whether a file is one, valid or not, and not an experiment.
	recognise func(data []byte) bool
	// convert returns the experiment as YAML, and the differences in meaning.
	convert func(file string, data []byte) ([]byte, []yamldoc.Note, error)
	hint    string // how to tell such a file
}

// converters lists the programs of which a file can be an experiment.
func converters() []converter {
	return []converter{
		{
			"bucketbench", "a bucketbench file", bucketbench.Recognise, toYAML(bucketbench.Convert),
			"a bucketbench file has the keys drivers and commands; tare runs its own experiments as they are",
		},
		{
			"pgbench-tools", "the config of pgbench-tools", pgbenchtools.Recognise, toYAML(pgbenchtools.Convert),
			"such a file sets SCALES and SETCLIENTS; tare runs its own experiments as they are",
		},
	}
}

// toYAML has what a file is converted to written as YAML.
func toYAML[E interface{ YAML() []byte }](
	convert func(file string, data []byte) (E, []yamldoc.Note, error),
) func(file string, data []byte) ([]byte, []yamldoc.Note, error) {
	return func(file string, data []byte) ([]byte, []yamldoc.Note, error) {
		e, notes, err := convert(file, data)
		if err != nil {
			return nil, nil, err
		}
		return e.YAML(), notes, nil
	}
}

// source reads an experiment, or converts another program's file to one.
func (a *invocation) source(name string) (file string, data []byte, err error) {
	file, data, err = a.experimentSource(name)
	if err != nil {
		return file, data, err
	}
	for _, c := range converters() {
		if c.recognise(data) {
			yaml, _, err := a.convert(c, file, data)
			// Later errors name lines of the experiment, not of the file.
			return file + " as an experiment", yaml, err
		}
	}
	return file, data, nil
}

// convert makes an experiment of a file, and tells the differences in meaning.
func (a *invocation) convert(c converter, file string, data []byte) ([]byte, []yamldoc.Note, error) {
	yaml, notes, err := c.convert(file, data)
	switch {
	case err != nil && !c.recognise(data):
		return nil, nil, &usageError{err, c.hint}
	case err != nil:
		return nil, nil, &usageError{err: err}
	}
	a.notice("%s is %s; differences in meaning:", file, c.what)
	for _, n := range notes {
		a.notice("  %s", n)
	}
	return yaml, notes, nil
}

// recognises reports whether a file can be read again and is one for the converter.
func (a *invocation) recognises(c converter, name string) bool {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return false
	}
	_, data, err := a.experimentSource(name)
	return err == nil && c.recognise(data)
}

// converted is a converted file as --json prints it.
type converted struct {
	Experiment string         `json:"experiment"` // YAML
	Notes      []yamldoc.Note `json:"notes"`      // differences in meaning
}

// importExperiment writes the experiment that does the work of a file. It stores nothing.
func (a *invocation) importExperiment(c converter, name, output string) error {
	file, data, err := a.experimentSource(name)
	if err != nil {
		return err
	}
	yaml, notes, err := a.convert(c, file, data)
	if err != nil {
		return err
	}
	if a.global.JSON {
		err = a.printJSON(converted{string(yaml), append([]yamldoc.Note{}, notes...)})
	}
	if err != nil || a.global.JSON && output == "-" {
		return err
	}
	return a.toFile(output, func(w io.Writer) error {
		_, err := w.Write(yaml)
		return err
	})
}
