package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// A Leftover is one object of a dead run, with the engine that knows it.
type Leftover struct {
	bench.Leftover
	Removed bool `json:"removed"`
	engine  bench.Cleaner
}

// A CleanOptions says what is to be removed.
type CleanOptions struct {
	Runs   []string                                  // whole IDs; none = what every dead run left
	DryRun bool                                      // only look
	Stored func(ctx context.Context, id string) bool // whether a run is stored, or that is not known; nil = it is not
	// Hold keeps others from working on a run meanwhile, as the function Hold does; nil = no run is stored.
	Hold func(ctx context.Context, id string) (release func() error, err error)
}

// Clean removes what dead runs left on this machine, and returns it. Objects that the
// error names stay. Found is nil, not just empty, if Clean could not look.
func (a *App) Clean(ctx context.Context, c CleanOptions) (found []Leftover, err error) {
	dead, err := deadRuns(a.state)
	defer release(dead)
	if err != nil {
		return nil, err
	}
	half, err := partiallyRemoved(a.state)
	defer release(half)
	if err != nil {
		return nil, err
	}
	runs, err := a.selectDead(ids(dead), c.Runs)
	if err != nil {
		return nil, err
	}
	runs, letGo, err := c.hold(ctx, runs)
	defer letGo()
	if err != nil {
		return nil, err
	}
	instances := a.withUsed(Builtin(), runs)
	found, unasked, err := a.leftovers(ctx, instances, runs)
	if unknown := a.unknownRun(ctx, c, ids(half), found); unknown != nil {
		return nil, errors.Join(unknown, err)
	}
	if !c.DryRun {
		if found, err = a.removeAll(ctx, found, err, instances, runs); err == nil {
			unasked = nil // who could not say has said so when he was asked once more
		}
	}
	stays := func(id string) bool {
		return slices.ContainsFunc(found, func(l Leftover) bool { return l.Run == id && !l.Removed && !c.DryRun })
	}
	dead = slices.DeleteFunc(slices.Clone(dead), func(d *runDir) bool {
		return !slices.Contains(runs, d.id) || slices.Contains(unasked, d.id) || stays(d.id)
	})
	for _, d := range half {
		if len(c.Runs) == 0 || slices.Contains(c.Runs, d.id) {
			dead = append(dead, d)
		}
	}
	if !c.DryRun {
		removeUnclaimed(a.state, a.config.Now())
	}
	directories, dirErr := cleanDirectories(dead, c.DryRun)
	if len(c.Runs) == 0 {
		work, workErr := cleanWork(c.DryRun)
		directories, dirErr = append(directories, work...), errors.Join(dirErr, workErr)
	}
	return append(append([]Leftover{}, found...), directories...), errors.Join(err, dirErr)
}

// hold keeps others from working on runs until they are let go, and returns those that nobody works on.
// A process with another state directory may be at one that looks dead here; if such a run was named,
// that is an error. If the store cannot tell, the run is dead as far as its directory says: what it left
// can be removed without a store.
func (c CleanOptions) hold(ctx context.Context, runs []string) (free []string, letGo func(), err error) {
	var held []func() error
	letGo = func() {
		for _, release := range held {
			_ = release() // at worst the run is held until this process ends
		}
	}
	if c.Hold == nil {
		return runs, letGo, nil
	}
	for _, id := range runs {
		release, err := c.Hold(ctx, id)
		var why *Problem
		switch {
		case err == nil:
			held = append(held, release)
		case errors.As(err, &why) && why.Kind == UnderWay:
			if len(c.Runs) > 0 {
				return nil, letGo, err
			}
			continue
		}
		free = append(free, id)
	}
	return free, letGo, nil
}

// DeadRuns lists the runs that ended without cleaning up.
func (a *App) DeadRuns() ([]string, error) {
	dead, err := deadRuns(a.state)
	release(dead)
	half, halfErr := partiallyRemoved(a.state)
	release(half)
	return ids(slices.Concat(dead, half)), errors.Join(err, halfErr)
}

// selectDead lists the dead runs or, of those named, the ones that are not under
// way here.
func (a *App) selectDead(dead, named []string) ([]string, error) {
	if len(named) == 0 {
		return dead, nil
	}
	for _, id := range named {
		if err := bench.ValidRunID(id); err != nil {
			return nil, &Problem{Kind: BadRunID, Err: err}
		}
		path := a.runDir(id)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) || slices.Contains(dead, id) {
			continue
		}
		if mark, err := readMark(filepath.Join(path, lockName)); err == nil && mark != markOf(id) {
			err := fmt.Errorf("%s is not the directory of a run: %w", path, errForeign)
			return nil, &Problem{Kind: ForeignFiles, Err: err, Run: id}
		}
		return nil, fmt.Errorf("run %s is still running", id)
	}
	return named, nil
}

// unknownRun is the error of naming an unknown run: one that left nothing, has no
// directory here, not even a half-deleted one, and is not stored.
func (a *App) unknownRun(ctx context.Context, c CleanOptions, half []string, found []Leftover) error {
	for _, id := range c.Runs {
		_, err := os.Stat(a.runDir(id))
		left := slices.Contains(half, id) || slices.ContainsFunc(found, func(l Leftover) bool { return l.Run == id })
		if errors.Is(err, fs.ErrNotExist) && !left && (c.Stored == nil || !c.Stored(ctx, id)) {
			err := fmt.Errorf("no run %q: it is not stored, and it left nothing here", id)
			return &Problem{Kind: UnknownRun, Err: err, Run: id}
		}
	}
	return nil
}

// leftovers asks engines what runs left behind, among them all that these runs used. A run
// is unasked if one of its engines cannot be asked, or fails to answer. Then there is an error, and its
// directory stays, because nothing else remembers its engines.
func (a *App) leftovers(
	ctx context.Context, instances []Instance, runs []string,
) (found []Leftover, unasked []string, err error) {
	found, silent, err := a.leftoversOf(ctx, instances, runs)
	for _, id := range runs {
		for _, used := range a.savedInstances(id) {
			var why error
			if i := slices.IndexFunc(instances, func(i Instance) bool { return same(i, used) }); i >= 0 {
				why = silent[i]
			}
			if why != nil {
				unasked = append(unasked, id)
			}
			if errors.Is(why, bench.ErrUnsupported) { // other errors are among those already
				err = errors.Join(err, &Problem{
					Kind: NotAsked, Run: id,
					Err: fmt.Errorf("cannot ask %s what run %s left behind: %w", used.Name, id, why),
				})
			}
		}
	}
	return found, unasked, err
}

// leftoversOf asks some engines what is left of runs; silent has, for each, why it
// could not say. They are asked at the same time, for some take their time, and
// answer in their own order.
func (a *App) leftoversOf(
	ctx context.Context, instances []Instance, runs []string,
) (found []Leftover, silent []error, err error) {
	isDead := func(id string) bool { return slices.Contains(runs, id) }
	answers := make([]leftoverAnswer, len(instances))
	var asking sync.WaitGroup
	for i, inst := range instances {
		asking.Go(func() { answers[i] = a.askLeftovers(ctx, inst, isDead) })
	}
	asking.Wait()
	for i, got := range answers {
		found, silent = append(found, got.leftovers...), append(silent, got.err)
		if errors.Is(got.err, bench.ErrUnsupported) {
			a.config.Observer.EngineUnreachable(instances[i].Name, got.err)
			continue
		}
		err = errors.Join(err, got.err)
	}
	return listedOnce(found), silent, err
}

// listedOnce leaves out what several engines know of, but for one of them. The control group of a run
// has the containers of all in it, and goes after them. All engines of plain processes know each of these.
func listedOnce(found []Leftover) (once []Leftover) {
	for i, l := range found {
		same := func(o Leftover) bool { return o.Kind == l.Kind && o.ID == l.ID && o.Run == l.Run }
		later := l.Kind == "cgroup" && slices.ContainsFunc(found[i+1:], same)
		before := l.Kind == "process" && slices.ContainsFunc(found[:i], same)
		if !later && !before {
			once = append(once, l)
		}
	}
	return once
}

// A leftoverAnswer is what an engine says is left. An error that wraps ErrUnsupported says
// that it cannot be asked.
type leftoverAnswer struct {
	leftovers []Leftover
	err       error
}

// askLeftovers asks one engine.
func (a *App) askLeftovers(ctx context.Context, inst Instance, isDead func(run string) bool) leftoverAnswer {
	e, err := a.runSite("clean").Engine(inst)
	if err != nil {
		return leftoverAnswer{err: err}
	}
	c, ok := bench.As[bench.Cleaner](e)
	if !ok {
		return leftoverAnswer{}
	}
	left, err := c.Leftovers(ctx, isDead)
	if err != nil && !errors.Is(err, bench.ErrUnsupported) {
		err = fmt.Errorf("ask %s what runs left behind: %w", inst.Name, err)
	}
	got := leftoverAnswer{err: err}
	for _, l := range left {
		got.leftovers = append(got.leftovers, Leftover{Leftover: l, engine: c})
	}
	return got
}

// removeAll removes what was found of runs, and returns it. A process that was among it may have had an engine make
// something after the engine was asked, as compose programs do; and what an engine could not tell, as asked says, it
// may tell without what was found. Then it asks once more.
func (a *App) removeAll(
	ctx context.Context, found []Leftover, asked error, instances []Instance, runs []string,
) ([]Leftover, error) {
	err := removeLeftovers(ctx, found)
	again := func(l Leftover) bool { return l.Removed && (l.Kind == "process" || asked != nil) }
	if !slices.ContainsFunc(found, again) {
		return found, errors.Join(asked, err)
	}
	more, _, moreErr := a.leftovers(ctx, instances, runs)
	more = slices.DeleteFunc(more, func(l Leftover) bool {
		return slices.ContainsFunc(found, func(o Leftover) bool { return o.Leftover == l.Leftover })
	})
	return append(found, more...), errors.Join(err, moreErr, removeLeftovers(ctx, more))
}

// removeLeft removes what a run of this process left behind in its engines although each trial
// cleaned up and the engines are closed: objects that a daemon was creating when it died.
func (a *App) removeLeft(ctx context.Context, p *Planned, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	found, _, err := a.leftoversOf(ctx, p.usedInstances(), []string{id})
	for _, l := range found {
		a.config.Observer.Removed(l.Leftover)
	}
	return errors.Join(err, removeLeftovers(ctx, found))
}

func removeLeftovers(ctx context.Context, found []Leftover) error {
	var errs []error
	for i, l := range found {
		if err := l.engine.RemoveLeftover(ctx, l.Leftover); err != nil {
			errs = append(errs, fmt.Errorf("remove %s %s of %s: %w", l.Kind, l.ID, l.Engine, err))
			continue
		}
		found[i].Removed = true
	}
	return errors.Join(errs...)
}

// cleanDirectories removes the directories of dead runs, once their engines
// have let go of them, and what is left of those that are half gone.
func cleanDirectories(dead []*runDir, dryRun bool) (found []Leftover, err error) {
	for _, d := range dead {
		l := Leftover{Leftover: bench.Leftover{Run: d.id, Kind: "directory", ID: d.path}}
		if !dryRun {
			removeErr := d.remove()
			l.Removed = removeErr == nil
			err = errors.Join(err, removeErr)
		}
		found = append(found, l)
	}
	return found, err
}

// instancesFile keeps the engines of a run for 'tare clean'.
const instancesFile = "engines.json"

// saveInstances keeps the engines of a run, with that of its load generators, beside what they make.
func saveInstances(dir string, all []Instance) error {
	generators := Instance{Name: clientName, Driver: "native"}
	data, err := json.Marshal(append(slices.Clone(all), generators))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, instancesFile), data, 0o600)
}

// withUsed joins engines, such as the built-in ones, with those that dead runs used.
func (a *App) withUsed(all []Instance, runs []string) []Instance {
	all = slices.Clone(all)
	for _, id := range runs {
		for _, used := range a.savedInstances(id) {
			if !slices.ContainsFunc(all, func(e Instance) bool { return same(e, used) }) {
				all = append(all, used)
			}
		}
	}
	return all
}

// savedInstances are the engines that a run used. A file that cannot be read
// counts as empty: the run died before it wrote it.
func (a *App) savedInstances(id string) []Instance {
	data, err := os.ReadFile(filepath.Join(a.runDir(id), instancesFile))
	var saved []Instance
	if err != nil || json.Unmarshal(data, &saved) != nil {
		return nil
	}
	return saved
}
