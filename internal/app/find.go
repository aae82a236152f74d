package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/store/record"
)

// FindRun turns what a user calls a run into its ID: an ID, its name, a unique beginning or
// end of an ID, or bench.LastRun for the newest. If that names no run or several, the error
// is a Problem.
func FindRun(ctx context.Context, s bench.Store, name string) (string, error) {
	if name == bench.LastRun {
		return newestRun(ctx, s)
	}
	named, err := s.Named(ctx, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	found, hidden := s.Find(ctx, name, 0)
	switch is := slices.Contains(found, name); {
	case is && named != "" && named != name: // another run came with that ID later
		found = []string{name, named}
	case is:
		return name, nil
	case named != "":
		return named, nil
	}
	switch {
	case name == "" || len(found) == 0:
		return "", cmp.Or(hidden, runNotFound(ctx, s, name))
	case len(found) == 1:
		return found[0], nil
	default:
		short := NewShortener(ctx, s)
		for i, id := range found {
			found[i] = short.Short(ctx, id)
		}
		err := fmt.Errorf("%q matches %d runs: %s", name, len(found), strings.Join(found, ", "))
		return "", &Problem{Kind: ManyRuns, Err: err}
	}
}

// newestRun is the ID of the newest run. One that is hidden may be newer; one that cannot
// be read may say wrongly when it began, and the run before it is not the last.
func newestRun(ctx context.Context, s bench.Store) (string, error) {
	found, err := s.Find(ctx, "", 1)
	if err == nil && len(found) == 0 {
		return "", runNotFound(ctx, s, bench.LastRun)
	}
	if err == nil {
		if _, err = HeaderOf(ctx, s, found[0]); err == nil {
			return found[0], nil
		}
		err = fmt.Errorf("run %s: %w", found[0], err)
	}
	return "", &Problem{
		Kind: LastUnknown,
		Err:  fmt.Errorf("cannot tell which run is the last one, because one cannot be read: %w", err),
	}
}

// runNotFound is the error of looking for a run that is not among those stored. It names the nearest end of an ID.
func runNotFound(ctx context.Context, s bench.Store, name string) error {
	all, err := s.Find(ctx, "", 0)
	if err == nil && len(all) == 0 {
		return &Problem{Kind: NoRuns, Err: errors.New("no runs yet")}
	}
	p := &Problem{Kind: NoRun, Err: fmt.Errorf("no run %q", name)}
	for i, id := range all {
		all[i] = id[strings.LastIndex(id, "-")+1:]
	}
	begins := func(end string) bool { return name != "" && strings.HasPrefix(end, strings.ToLower(name)) }
	if i := slices.IndexFunc(all, begins); i >= 0 {
		p.Names = all[i : i+1]
	} else if near, ok := experiment.Nearest(name, all); ok {
		p.Names = []string{near}
	}
	return p
}

// OpenRun reads the run that a user means; see FindRun.
func OpenRun(ctx context.Context, s bench.Store, name string) (*bench.Run, error) {
	id, err := FindRun(ctx, s, name)
	if err != nil {
		return nil, err
	}
	return s.Open(ctx, id)
}

// OpenValues reads the run that a user means to show its values: all but the series, distributions and
// traces of its samples. See FindRun, and OpenSingles for memory.
func OpenValues(ctx context.Context, s bench.Store, name string) (*bench.Run, error) {
	return openToShow(ctx, s, name, record.CollectValues)
}

// OpenSingles reads the run that a user means to show single operations and timelines too: all but the traces
// of trials that were not run for them; see FindRun. A process that opens a large run has less garbage beside it
// from then on, for which it collects more often. It should not measure.
func OpenSingles(ctx context.Context, s bench.Store, name string) (*bench.Run, error) {
	return openToShow(ctx, s, name, record.CollectSingles)
}

// OpenTraced reads the run that a user means with the traces of its samples, for timelines. Their trials
// are few, so traces are small beside the rest.
func OpenTraced(ctx context.Context, s bench.Store, name string) (*bench.Run, error) {
	return openToShow(ctx, s, name, record.CollectTraced)
}

// A run of so many trials is large: some 30 MB. Almost all of that stays in use, so with Go's default the
// process would take twice as much.
const (
	largeRun       = 100_000
	percentOfLarge = 15 // garbage beside what is in use
)

func openToShow(
	ctx context.Context, s bench.Store, name string, collect func(iter.Seq2[record.Event, error]) (*bench.Run, error),
) (*bench.Run, error) {
	id, err := FindRun(ctx, s, name)
	if err != nil {
		return nil, err
	}
	return collect(func(yield func(record.Event, error) bool) {
		for e, err := range record.Stored(ctx, s, id) {
			if e.Sample != nil && e.Sample.Trial.Seq == largeRun {
				debug.SetGCPercent(percentOfLarge)
			}
			if !yield(e, err) {
				return
			}
		}
	})
}

// HeaderOf reads the header of the run of an ID, and nothing else of it.
func HeaderOf(ctx context.Context, s bench.Store, id string) (*bench.Header, error) {
	return headerOf(record.Stored(ctx, s, id))
}

// headerOf reads the first piece of a run, which is its header.
func headerOf(events iter.Seq2[record.Event, error]) (*bench.Header, error) {
	for e, err := range events {
		return e.Header, err
	}
	return nil, fs.ErrNotExist
}
