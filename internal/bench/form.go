package bench

import "io"

// A Form is that of another program, in which the runs of a workload can be shown.
type Form struct {
	Name  string // of the program
	Write func(w io.Writer, r *Run) error
}

// A Former is a Workload whose runs can be shown in the forms of other programs.
type Former interface{ Forms() []Form }
