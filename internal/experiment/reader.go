package experiment

import "github.com/tare-bench/tare/internal/experiment/yamldoc"

// MaxBytes is the largest file that Parse reads.
const MaxBytes = yamldoc.MaxBytes

func readYAML(name string, data []byte) (yamldoc.Node, yamldoc.Source, error) {
	return yamldoc.Read(name, data, yamldoc.Hints{
		TooLarge:          "an experiment is about one page of text",
		Empty:             "`tare plan quick --yaml` prints an experiment to start from",
		MultipleDocuments: "write each experiment into its own file",
	})
}

// A reader collects the problems found while an experiment is read.
type reader struct{ yamldoc.Problems }

func newReader(src yamldoc.Source) *reader { return &reader{yamldoc.Problems{Source: src}} }
