package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// leftover is one object of a dead run with the engine that knows it.
type leftover struct {
	bench.Leftover
	Removed bool `json:"removed"`
	engine  bench.Cleaner
}

func (a *invocation) clean(ctx context.Context, named []string, dryRun bool) error {
	state, err := a.stateDir()
	if err != nil {
		return err
	}
	dead, err := deadRuns(state)
	defer release(dead)
	if err != nil {
		return err
	}
	half, err := halfGone(state)
	defer release(half)
	if err != nil {
		return err
	}
	runs, err := toClean(state, ids(dead), named)
	if err != nil {
		return err
	}
	found, unasked, err := a.leftovers(ctx, state, runs)
	if unknown := a.unknownRun(ctx, state, named, ids(half), found); unknown != nil {
		return errors.Join(unknown, err)
	}
	if !dryRun {
		err = errors.Join(err, removeLeftovers(ctx, found))
	}
	dead = slices.DeleteFunc(slices.Clone(dead), func(d *runDir) bool {
		return !slices.Contains(runs, d.id) || slices.Contains(unasked, d.id)
	})
	for _, d := range half {
		if len(named) == 0 || slices.Contains(named, d.id) {
			dead = append(dead, d)
		}
	}
	if !dryRun {
		removeHusks(state, a.now())
	}
	directories, dirErr := cleanDirectories(dead, dryRun)
	if len(named) == 0 {
		work, workErr := cleanWork(dryRun)
		directories, dirErr = append(directories, work...), errors.Join(dirErr, workErr)
	}
	return errors.Join(a.printCleaned(append(found, directories...), dryRun), err, dirErr)
}

// toClean lists the dead runs or, of those named, the ones that are not under
// way here.
func toClean(state string, dead, named []string) ([]string, error) {
	if len(named) == 0 {
		return dead, nil
	}
	for _, id := range named {
		if err := bench.ValidRunID(id); err != nil {
			return nil, &usageError{err, "'tare list' shows the runs"}
		}
		path := filepath.Join(state, "runs", id)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) || slices.Contains(dead, id) {
			continue
		}
		if mark, err := readMark(filepath.Join(path, lockName)); err == nil && mark != markOf(id) {
			return nil, &usageError{fmt.Errorf("%s is not the directory of a run: %w", path, errForeign), "it stays as it is"}
		}
		return nil, fmt.Errorf("run %s is under way", id)
	}
	return named, nil
}

// unknownRun is the error of naming a run of which nothing is known: it left
// nothing, has no directory here, be it half gone, and is not stored.
func (a *invocation) unknownRun(ctx context.Context, state string, named, half []string, found []leftover) error {
	for _, id := range named {
		_, err := os.Stat(filepath.Join(state, "runs", id))
		left := slices.Contains(half, id) || slices.ContainsFunc(found, func(l leftover) bool { return l.Run == id })
		if errors.Is(err, fs.ErrNotExist) && !left && !a.stored(ctx, id) {
			return &usageError{fmt.Errorf("no run %q: it is not stored and left nothing here", id), "'tare list' shows the stored runs; clean takes whole IDs"}
		}
	}
	return nil
}

// stored reports whether the store has a run, or cannot say.
func (a *invocation) stored(ctx context.Context, id string) bool {
	found := false
	err := a.withRuns(ctx, func(s bench.Store) error {
		for r, err := range s.Runs(ctx) {
			if err != nil {
				return err
			}
			found = found || r.Header.ID == id
		}
		return nil
	})
	return found || err != nil
}

// leftovers asks every engine, built-in or used by a dead run, what is left. The
// runs whose own engines could not all be asked are unasked: there is an error for
// them, and their directories have to stay, since nothing else tells of them.
func (a *invocation) leftovers(ctx context.Context, state string, runs []string) (found []leftover, unasked []string, err error) {
	found, silent, err := a.leftoversWith(ctx, instancesOf(state, runs), state, runs)
	for _, id := range runs {
		for _, used := range savedInstances(state, id) {
			if why, ok := silent[used.Name]; ok {
				unasked = append(unasked, id)
				err = errors.Join(err, &hintError{
					fmt.Errorf("%s cannot be asked what run %s left with it: %w", used.Name, id, why),
					"'tare clean' again when it runs",
				})
			}
		}
	}
	return found, unasked, err
}

// leftoversWith asks some engines what is left of runs; silent are, by name, those
// that cannot be asked. They are asked at the same time, for some take their time, and
// answer in their own order.
func (a *invocation) leftoversWith(ctx context.Context, instances []instance, state string, runs []string) (found []leftover, silent map[string]error, err error) {
	isDead := func(id string) bool { return slices.Contains(runs, id) }
	answers := make([]answer, len(instances))
	var asking sync.WaitGroup
	for i, inst := range instances {
		asking.Go(func() { answers[i] = a.ask(ctx, inst, state, isDead) })
	}
	asking.Wait()
	silent = map[string]error{}
	for i, got := range answers {
		found = append(found, got.left...)
		if errors.Is(got.err, bench.ErrUnsupported) {
			silent[instances[i].Name] = got.err
			a.verbose("%s cannot be asked what is left with it: %v", instances[i].Name, got.err)
			continue
		}
		err = errors.Join(err, got.err)
	}
	return groupsOnce(found), silent, err
}

// groupsOnce leaves out all but the last of what several engines know of: the control
// group of a run has the containers of all in it, and goes after them.
func groupsOnce(found []leftover) (once []leftover) {
	for i, l := range found {
		same := func(o leftover) bool { return o.Kind == l.Kind && o.ID == l.ID && o.Run == l.Run }
		if l.Kind != "cgroup" || !slices.ContainsFunc(found[i+1:], same) {
			once = append(once, l)
		}
	}
	return once
}

// An answer is what an engine says is left. An error that wraps ErrUnsupported says
// that it cannot be asked.
type answer struct {
	left []leftover
	err  error
}

// ask asks one engine.
func (a *invocation) ask(ctx context.Context, inst instance, state string, isDead func(run string) bool) answer {
	e, err := openEngine(a.newSite("clean", filepath.Join(state, "runs", "clean")), inst)
	if err != nil {
		return answer{err: err}
	}
	c, ok := bench.As[bench.Cleaner](e)
	if !ok {
		return answer{}
	}
	left, err := c.Leftovers(ctx, isDead)
	if err != nil && !errors.Is(err, bench.ErrUnsupported) {
		err = fmt.Errorf("look for leftovers of %s: %w", inst.Name, err)
	}
	got := answer{err: err}
	for _, l := range left {
		got.left = append(got.left, leftover{Leftover: l, engine: c})
	}
	return got
}

// sweep removes what a run of this process has left with its engines although
// each trial cleaned up and the engines are closed: what a daemon had begun when it
// died, and nobody was told of.
func (a *invocation) sweep(ctx context.Context, p *planned, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	found, _, err := a.leftoversWith(ctx, p.usedInstances(), filepath.Dir(filepath.Dir(p.site.dir)), []string{id})
	for _, l := range found {
		a.verbose("left by a trial that failed: %s %s of %s", l.Kind, l.ID, l.Engine)
	}
	return errors.Join(err, removeLeftovers(ctx, found))
}

func removeLeftovers(ctx context.Context, found []leftover) error {
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
func cleanDirectories(dead []*runDir, dryRun bool) (found []leftover, err error) {
	for _, d := range dead {
		l := leftover{Leftover: bench.Leftover{Run: d.id, Kind: "directory", ID: d.path}}
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

// saveInstances keeps the engines of a run beside what they make.
func saveInstances(dir string, all []instance) error {
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, instancesFile), data, 0o600)
}

// instancesOf lists the built-in engines and those that dead runs used.
func instancesOf(state string, runs []string) []instance {
	all := builtinInstances()
	for _, id := range runs {
		for _, used := range savedInstances(state, id) {
			if !slices.ContainsFunc(all, func(e instance) bool {
				return e.Name == used.Name && e.Driver == used.Driver && maps.Equal(e.Options, used.Options)
			}) {
				all = append(all, used)
			}
		}
	}
	return all
}

// savedInstances are the engines that a run used. A file that cannot be read
// counts as empty: the run died before it wrote it.
func savedInstances(state, id string) []instance {
	data, err := os.ReadFile(filepath.Join(state, "runs", id, instancesFile))
	var saved []instance
	if err != nil || json.Unmarshal(data, &saved) != nil {
		return nil
	}
	return saved
}
