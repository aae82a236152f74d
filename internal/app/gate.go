package app

import (
	"io"

	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/report/gate"
	"github.com/tare-bench/tare/internal/text/plain"
)

// A Judgement is what a gate says of a run.
type Judgement = gate.Judgement

// The outcomes of a gate that does not pass.
const (
	GateWorse        = gate.Worse
	GateUndecided    = gate.Undecided
	GateTrialsFailed = gate.TrialsFailed
)

// Judge judges the report of one run; id is what commands call it. A strict gate passes only what is
// shown to be harmless.
func Judge(d *report.Document, strict bool, id string) *Judgement { return gate.Judge(d, strict, id) }

// WriteJudgement writes a judgement for people, in lines of so many columns, or as JSON.
func WriteJudgement(w io.Writer, j *Judgement, columns int, asJSON bool) error {
	if asJSON {
		return plain.WriteJSON(w, j, "  ")
	}
	return gate.Write(w, j, columns)
}

// WriteAnnotations writes what GitHub's Actions show beside a change, and WriteGateMarkdown a comment or a
// step summary.
func WriteAnnotations(w io.Writer, j *Judgement) error  { return gate.WriteAnnotations(w, j) }
func WriteGateMarkdown(w io.Writer, j *Judgement) error { return gate.WriteMarkdown(w, j) }

// A GateFile is a file that a gate can leave for others.
type GateFile struct {
	Name  string // of its flag
	Doc   string // what it is, after "also write"
	Write func(w io.Writer, j *Judgement) error
}

// GateFiles lists them.
func GateFiles() []GateFile {
	return []GateFile{
		{"junit", "the judgement as test results", gate.WriteJUnit},
		{"markdown", "the judgement as a comment for a pull request", gate.WriteMarkdown},
		{"gitlab", "the judgement as metrics for GitLab", gate.WriteMetrics},
	}
}
