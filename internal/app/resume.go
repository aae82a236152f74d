package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/host"
)

// Resume goes on with a stored run that is incomplete, from the first trial that has no
// sample, after it has removed what the killed run left. It returns as Measure does; of
// the options only Interrupt is used.
func (a *App) Resume(ctx context.Context, s bench.Store, stored *bench.Run, o Options) (id string, err error) {
	return a.takeUp(ctx, s, stored, nil, o)
}

// takeUp goes on with a stored run, which e extends; nil where it is incomplete.
func (a *App) takeUp(
	ctx context.Context, s bench.Store, stored *bench.Run, e *bench.Extension, o Options,
) (id string, err error) {
	id = stored.Header.ID
	if err := a.cleanDead(ctx, id); err != nil {
		return "", err
	}
	again := bench.Resumption{
		Time: a.config.Now().UTC(), Tool: a.config.Version, Seq: len(stored.Samples), Host: host.Facts(fsRoot), Extension: e,
	}
	resumed := *stored
	resumed.Resumptions = append(slices.Clone(stored.Resumptions), again)
	session, err := a.resumeRun(ctx, &resumed, a.runSite(id))
	if err != nil {
		return "", err
	}
	defer session.machine.Close()
	dir, err := a.newRunDir(id, session.Planned.usedInstances())
	if err != nil {
		return "", err
	}
	w, err := s.Resume(ctx, id, again)
	if err != nil {
		return "", errors.Join(err, dir.remove())
	}
	session.writer, session.interrupt = w, o.Interrupt
	err = a.execute(ctx, dir, session)
	return id, errors.Join(err, w.Close())
}

// resumeRun gets ready to go on with a stored run: with the engines that it
// declared, measuring the same quantities.
func (a *App) resumeRun(ctx context.Context, stored *bench.Run, s *EngineSite) (Session, error) {
	var declared []Instance
	for _, e := range stored.Header.Engines {
		declared = append(declared, Instance{Name: e.Name, Driver: e.Driver, Options: e.Options})
	}
	p, err := a.replan(ctx, stored.Header.Plan, declared, s)
	if err == nil {
		err = p.Usable(ctx)
	}
	if err != nil {
		return Session{}, err
	}
	m, err := openMachine()
	if err != nil {
		return Session{}, err
	}
	err = sameMetrics(stored.Header.Metrics, append(p.Workload.Metrics(), m.Metrics()...))
	if err == nil {
		err = m.resumeCounting(p, stored.Header.Warnings)
	}
	if err != nil {
		m.Close()
		return Session{}, err
	}
	return Session{
		Header: underLimits(stored), Planned: p, Done: stored.Samples,
		Look: stored.Looks(), ExtendedAt: extendedAt(stored), WasPrecise: wasPrecise(stored), machine: m,
	}, nil
}

// Incomplete opens an incomplete run so that it can be resumed: the one with the name, as
// FindRun takes it, or the newest if the name is empty. A run that was imported cannot be
// resumed: its hooks and programs would be whatever its file says.
func Incomplete(ctx context.Context, s bench.Store, name string) (*bench.Run, error) {
	if name == "" {
		return newestIncomplete(ctx, s)
	}
	r, err := OpenRun(ctx, s, name)
	switch {
	case err != nil:
		return nil, err
	case r.End != nil:
		id := r.Header.ID
		return nil, &Problem{Kind: Finished, Err: fmt.Errorf("run %s: %w", id, bench.ErrFinished), Run: id}
	case r.Header.Imported:
		return nil, isImported(r.Header.ID)
	}
	return r, nil
}

func newestIncomplete(ctx context.Context, s bench.Store) (*bench.Run, error) {
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
	return nil, &Problem{Kind: NoIncomplete, Err: errors.New("no run is incomplete")}
}

// isImported is the error of resuming a run that began elsewhere.
func isImported(id string) error {
	err := fmt.Errorf("run %s was imported: it can be resumed only on the machine where it began", id)
	return &Problem{Kind: Imported, Err: err, Run: id}
}

// cleanDead removes what the killed process of one run left. The run must not
// be under way.
func (a *App) cleanDead(ctx context.Context, id string) error {
	dead, err := deadRuns(a.state)
	defer release(dead)
	if err != nil {
		return err
	}
	if _, err := a.selectDead(ids(dead), []string{id}); err != nil {
		return err
	}
	found, _, err := a.leftovers(ctx, []string{id})
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

// sameMetrics refuses to mix the metrics of two versions of tare.
func sameMetrics(stored, now []bench.Metric) error {
	if slices.EqualFunc(stored, now, func(a, b bench.Metric) bool { return a.Name == b.Name }) {
		return nil
	}
	return &Problem{
		Kind: OtherMetrics,
		Err:  errors.New("the run has other metrics than this version of tare measures on this machine"),
	}
}
