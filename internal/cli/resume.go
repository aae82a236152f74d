package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/host"
)

func (a *invocation) resumeCommand() *cobra.Command {
	var format formatOptions
	cmd := &cobra.Command{
		Use:   "resume [RUN]",
		Short: "Go on with a run that was interrupted or killed",
		Long: `Resume finishes a run under the same plan, seed and schedule, from the first
trial that has no sample. It first removes what the killed run left. Without RUN
it takes the newest incomplete one.`,
		Args: atMostOne("a run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := format.check(a.global.JSON); err != nil {
				return err
			}
			return a.withRuns(cmd.Context(), func(s bench.Store) error {
				return a.resume(cmd.Context(), s, args, format)
			})
		},
	}
	format.addFlags(cmd.Flags())
	a.addTokenFlag(cmd.Flags())
	cmd.ValidArgsFunction = a.completeRuns
	return cmd
}

func (a *invocation) resume(ctx context.Context, s bench.Store, args []string, format formatOptions) error {
	stored, err := incomplete(ctx, s, args)
	if err != nil {
		return err
	}
	id := stored.Header.ID
	state, err := a.stateDir()
	if err != nil {
		return err
	}
	if err := a.cleanDead(ctx, state, id); err != nil {
		return err
	}
	e, err := a.retake(ctx, stored, a.newSite(id, filepath.Join(state, "runs", id)))
	if err != nil {
		return err
	}
	defer e.machine.Close()
	dir, err := newRunDir(state, id, e.planned.usedInstances())
	if err != nil {
		return err
	}
	e.writer, err = s.Resume(ctx, id, bench.Resumption{
		Time: a.now().UTC(), Tool: toolVersion(), Seq: len(stored.Samples), Host: host.Facts(fsRoot),
	})
	if err != nil {
		return errors.Join(err, dir.remove())
	}
	err = a.execute(ctx, dir, e)
	return a.conclude(ctx, s, id, format, false, errors.Join(err, e.writer.Close()))
}

// retake gets ready to go on with a stored run: with the engines that it
// declared, measuring the same quantities.
func (a *invocation) retake(ctx context.Context, stored *bench.Run, s site) (execution, error) {
	var declared []instance
	for _, e := range stored.Header.Engines {
		declared = append(declared, instance{Name: e.Name, Driver: e.Driver, Options: e.Options})
	}
	p, err := a.replan(ctx, stored.Header.Plan, declared, s)
	if err == nil {
		err = p.usable(ctx)
	}
	if err != nil {
		return execution{}, err
	}
	m, err := openMachine()
	if err != nil {
		return execution{}, err
	}
	err = sameMetrics(stored.Header.Metrics, append(p.workload.Metrics(), m.Metrics()...))
	if err == nil {
		err = m.countAgain(p, stored.Header.Warnings)
	}
	if err != nil {
		m.Close()
		return execution{}, err
	}
	return execution{header: stored.Header, planned: p, machine: m, done: stored.Samples}, nil
}

// incomplete opens the run that the user means, or the newest incomplete one.
// A run that was imported is nobody's to go on with: its hooks and programs are
// whatever its file says.
func incomplete(ctx context.Context, s bench.Store, args []string) (*bench.Run, error) {
	if len(args) == 1 {
		r, err := openRun(ctx, s, args[0])
		switch {
		case err != nil:
			return nil, err
		case r.End != nil:
			return nil, &usageError{fmt.Errorf("run %s: %w", r.Header.ID, bench.ErrFinished), "tare show " + r.Header.ID}
		case r.Header.Imported:
			return nil, isImported(r.Header.ID)
		}
		return r, nil
	}
	var unreadable error
	imported := ""
	for r, err := range s.Runs(ctx) {
		switch {
		case err != nil:
			unreadable = errors.Join(unreadable, err)
		case r.End == nil && !r.Header.Imported:
			return s.Open(ctx, r.Header.ID)
		case r.End == nil:
			imported = cmp.Or(imported, r.Header.ID)
		}
	}
	switch {
	case unreadable != nil:
		return nil, unreadable
	case imported != "":
		return nil, isImported(imported)
	}
	return nil, &usageError{errors.New("no incomplete run"), "'tare list' shows the stored runs"}
}

// isImported is the error of resuming a run that began elsewhere.
func isImported(id string) error {
	return &usageError{
		fmt.Errorf("run %s was imported: it can only be resumed where it began", id),
		"on that machine: tare resume " + id,
	}
}

// cleanDead removes what the killed process of one run left. The run must not
// be under way.
func (a *invocation) cleanDead(ctx context.Context, state, id string) error {
	dead, err := deadRuns(state)
	defer release(dead)
	if err != nil {
		return err
	}
	if _, err := toClean(state, ids(dead), []string{id}); err != nil {
		return err
	}
	found, _, err := a.leftovers(ctx, state, []string{id})
	if err := errors.Join(err, removeLeftovers(ctx, found)); err != nil {
		return err
	}
	for _, d := range dead {
		if d.id == id {
			return d.remove()
		}
	}
	return nil
}

// sameMetrics refuses to mix what two versions of tare measure.
func sameMetrics(stored, now []bench.Metric) error {
	name := func(m bench.Metric) string { return m.Name }
	if slices.EqualFunc(stored, now, func(a, b bench.Metric) bool { return name(a) == name(b) }) {
		return nil
	}
	return &hintError{
		errors.New("this run measures other quantities than this version of tare does on this machine"),
		"resume it with the version and on the machine that began it, or start a new run",
	}
}
