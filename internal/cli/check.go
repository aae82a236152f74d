package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

func (a *invocation) checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [RUN...]",
		Short: "Check stored runs against their checksums",
		Long: `Check reads the whole store and compares everything in it with its checksum. It
names each run and each trial that errors of a disk or of memory have changed.
All others can still be read. Runs that an older version stored have no
checksums, and check says so. It changes nothing. With RUN it reads only these
runs.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRuns(cmd.Context(), func(s bench.Store) error { return a.check(cmd.Context(), s, args) })
		},
	}
	cmd.ValidArgsFunction = a.completeRuns
	return cmd
}

// checkedRun is one run that was checked, as --json prints it.
type checkedRun struct {
	ID      string         `json:"id"`
	Trials  int            `json:"trials"`
	Sums    bool           `json:"checksums"`             // whether it has them
	Damaged []damagedTrial `json:"damaged,omitempty"`     // trials that do not match their checksums
	Error   string         `json:"error,omitempty"`       // why it cannot be read to its end
	Written string         `json:"notes_error,omitempty"` // what is wrong with its name and its notes
}

// damagedTrial is one trial that does not match its checksum.
type damagedTrial struct {
	Seq    int    `json:"seq"`
	Block  int    `json:"block"` // from 1; 0 and below while warming up
	Reason string `json:"reason"`
}

// errDamagedStore is how a check ends that found something.
var errDamagedStore = &hintError{
	errors.New("the store is damaged"),
	"everything else in it can be read: save what you need with 'tare export', or restore a backup",
}

func (a *invocation) check(ctx context.Context, s bench.Store, names []string) error {
	store, ok := s.(bench.Checker)
	if !ok && len(names) > 0 {
		_, err := app.FindRun(ctx, s, names[0])
		return err
	}
	if !ok {
		a.notice("no runs yet; 'tare run' makes one")
		return nil
	}
	out := struct {
		File []string     `json:"file"` // what is wrong with the file as such
		Runs []checkedRun `json:"runs"`
	}{[]string{}, []checkedRun{}}
	bad, short := false, app.NewShortener(ctx, s)
	wrong, err := checkStored(ctx, s, store, names, func(c bench.CheckResult) error {
		r := checkedRun{ID: c.ID, Trials: c.Samples, Sums: c.Summed}
		if c.Err != nil {
			r.Error = c.Err.Error()
		}
		for _, d := range c.Damaged {
			r.Damaged = append(r.Damaged, damagedTrial{d.Trial.Seq, d.Trial.Block + 1, d.Reason})
		}
		if c.Written != nil {
			r.Written = c.Written.Error()
		}
		bad = bad || c.Err != nil || c.Written != nil || len(c.Damaged) > 0
		if a.global.JSON {
			out.Runs = append(out.Runs, r)
		} else {
			a.printChecked(short.Short(ctx, r.ID), r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	out.File = append(out.File, wrong...)
	if a.global.JSON {
		err = a.printJSON(out)
	} else {
		for _, text := range wrong {
			fmt.Fprintf(a.stdout, "the file: %s\n", plain.Line(text))
		}
	}
	if err == nil && (bad || len(wrong) > 0) {
		err = errDamagedStore
	}
	return err
}

// checkStored checks the runs that are named, or else the whole store.
func checkStored(
	ctx context.Context, s bench.Store, c bench.Checker, names []string, each func(bench.CheckResult) error,
) (wrong []string, err error) {
	if len(names) == 0 {
		return c.Check(ctx, each)
	}
	for _, name := range names {
		id, err := app.FindRun(ctx, s, name)
		if err == nil {
			err = each(c.CheckRun(ctx, id))
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (a *invocation) printChecked(id string, r checkedRun) {
	switch {
	case r.Error != "":
		fmt.Fprintf(a.stdout, "%s: cannot be read: %s\n", plain.Line(id), plain.Line(r.Error))
	case len(r.Damaged) > 0:
		fmt.Fprintf(a.stdout, "%s: damaged trials: %d of %d\n", id, len(r.Damaged), r.Trials)
	case r.Sums:
		fmt.Fprintf(a.stdout, "%s: %s, unchanged\n", id, unit.FormatCount(r.Trials, "trial"))
	default:
		fmt.Fprintf(a.stdout, "%s: %s, not checked: an older tare stored it without checksums\n", id,
			unit.FormatCount(r.Trials, "trial"))
	}
	if r.Written != "" {
		fmt.Fprintf(a.stdout, "  its name and notes: %s\n", plain.Line(r.Written))
	}
	for _, d := range r.Damaged {
		fmt.Fprintf(a.stdout, "  trial %d, block %d: %s\n", d.Seq, d.Block, plain.Line(d.Reason))
	}
}
