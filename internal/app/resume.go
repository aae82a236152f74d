package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	release, err := Hold(ctx, s, id)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, release()) }()
	dir, err := a.takeOver(ctx, id, declaredBy(stored))
	if err != nil {
		return "", err
	}
	session, err := a.resumeSession(ctx, s, dir, stored, e)
	if err != nil {
		return "", errors.Join(err, dir.remove())
	}
	defer session.machine.Close()
	session.interrupt, session.barrier = o.Interrupt, o.barrier
	session.Beside = disturbers(a.othersUnderWay(id))
	err = a.execute(ctx, dir, session)
	return id, errors.Join(err, session.writer.Close())
}

// resumeSession gets ready to go on with a stored run in its directory, and opens the run for
// appending. If it fails, nothing of it stays open.
func (a *App) resumeSession(
	ctx context.Context, s bench.Store, dir *runDir, stored *bench.Run, e *bench.Extension,
) (Session, error) {
	again := bench.Resumption{
		Time: a.config.Now().UTC(), Tool: a.config.Version, Seq: len(stored.Samples), Host: host.Facts(fsRoot), Extension: e,
	}
	resumed := *stored
	resumed.Resumptions = append(slices.Clone(stored.Resumptions), again)
	session, err := a.resumeRun(ctx, &resumed, a.runSite(dir.id))
	if err != nil {
		return Session{}, err
	}
	again.Warnings = a.hostWarnings(ctx, session.Planned, again.Host)
	err = saveInstances(dir.path, session.Planned.usedInstances())
	if err == nil {
		session.writer, err = s.Resume(ctx, dir.id, again)
	}
	if err != nil {
		session.machine.Close()
		return Session{}, err
	}
	return session, nil
}

// resumeRun gets ready to go on with a stored run: with the engines that it
// declared, measuring the same quantities.
func (a *App) resumeRun(ctx context.Context, stored *bench.Run, s *EngineSite) (Session, error) {
	p, err := a.replan(ctx, stored.Header.Plan, declaredBy(stored), s)
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
	if err == nil {
		err = m.resumeTracing(ctx, p)
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

// declaredBy lists the engines that a stored run uses.
func declaredBy(stored *bench.Run) (all []Instance) {
	for _, e := range stored.Header.Engines {
		all = append(all, Instance{Name: e.Name, Driver: e.Driver, Options: e.Options})
	}
	return all
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

// takeOver takes the directory of a run that is not under way, and removes what a killed process of
// the run left. From its beginning, nobody else can take the run over or clean up after it: of
// several who try at once, one succeeds, and what that one makes is not removed by the others.
// Only engines of the run are asked: another one's daemon may have to start for its answer.
func (a *App) takeOver(ctx context.Context, id string, engines []Instance) (*runDir, error) {
	dir, dead, err := a.claim(id)
	if err != nil {
		return nil, err
	}
	engines = append([]Instance{{Name: "native", Driver: "native"}}, engines...) // which load generators always use
	engines = a.withUsed(engines, []string{id})
	found, _, err := a.leftovers(ctx, engines, []string{id})
	_, err = a.removeAll(ctx, found, err, engines, []string{id})
	switch {
	case err != nil && dead:
		return nil, errors.Join(err, dir.close()) // it stays for 'tare clean'
	case err != nil:
		return nil, errors.Join(err, dir.remove())
	}
	if err := checkUnmounted(dir.path); err != nil {
		return nil, errors.Join(err, dir.close())
	}
	if err := dir.empty(); err != nil {
		return nil, errors.Join(err, dir.close())
	}
	return dir, nil
}

// claim locks the directory of a run that is not under way: the one of a dead process, or else a
// new one.
func (a *App) claim(id string) (dir *runDir, dead bool, err error) {
	if a.state == "" {
		return nil, false, errNoState
	}
	path := a.runDir(id)
	dir, err = lockDir(path)
	switch {
	case err == nil:
		return dir, true, nil
	case errors.Is(err, errLocked):
		return nil, false, isUnderWay(id)
	case !errors.Is(err, errForeign) && !errors.Is(err, fs.ErrNotExist):
		return nil, false, fmt.Errorf("run %s: %w", id, err)
	}
	dir, err = makeRunDir(a.state, id)
	switch {
	case err == nil:
		return dir, false, nil
	case a.UnderWay(id): // another process was faster
		return nil, false, isUnderWay(id)
	}
	if _, foreign := os.Lstat(path); foreign == nil {
		err := fmt.Errorf("%s is not the directory of a run: %w", path, errForeign)
		return nil, false, &Problem{Kind: ForeignFiles, Err: err, Run: id}
	}
	return nil, false, &Problem{Kind: NoState, Err: err, Run: id}
}

// isUnderWay is the error of doing something with a run that a process measures now.
func isUnderWay(id string) error {
	return &Problem{Kind: UnderWay, Err: fmt.Errorf("run %s is under way", id), Run: id}
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
