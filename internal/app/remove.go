package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/fleet"
)

// Removal is the runs that are to be removed, and those that stay.
type Removal struct {
	Runs    []bench.RunSummary // of one that cannot be read, no more than the ID
	Running []string           // IDs of those that were chosen, and are under way
	Fleets  []*fleet.Fleet     // that were named; all their runs are among Runs
}

// ToRemove looks up the runs that users name, as FindRun takes them, or those that a filter
// chooses where none is named. A run that is named and under way is a Problem; one that is
// chosen by a filter stays. Beside the runs there may be an error about others that cannot
// be read, which a filter never chooses.
func (a *App) ToRemove(ctx context.Context, s bench.Store, names []string, f *Filter) (r Removal, err error) {
	var ids []string
	for _, name := range names {
		id, err := FindRun(ctx, s, name)
		if f := fleetCalled(ctx, s, name, err); f != nil {
			r.Fleets = append(r.Fleets, f)
			of, err := s.Find(ctx, f.ID+"-", 0)
			if err != nil {
				return r, err
			}
			ids = append(ids, of...)
			continue
		}
		if err != nil {
			return r, err
		}
		if a.UnderWay(id) {
			return r, isUnderWay(id)
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	var unread error
	for stored, err := range s.Runs(ctx) {
		id := stored.Header.ID
		switch {
		case err != nil:
			unread = errors.Join(unread, err)
		case len(names) > 0 && !slices.Contains(ids, id), len(names) == 0 && !f.Chooses(&stored.Header):
		case len(names) == 0 && a.UnderWay(id):
			r.Running = append(r.Running, id)
		default:
			r.Runs = append(r.Runs, stored)
		}
	}
	if len(names) == 0 {
		return r, unread
	}
	for _, id := range ids { // those that cannot be read
		if !slices.ContainsFunc(r.Runs, func(s bench.RunSummary) bool { return s.Header.ID == id }) {
			r.Runs = append(r.Runs, bench.RunSummary{Header: bench.Header{ID: id}})
		}
	}
	return r, nil
}

// fleetCalled is the fleet that has a name as its ID, with which those of its runs begin, or else the one of which it is
// a part, if it means no run; nil if there is none. What may mean several runs means no fleet.
func fleetCalled(ctx context.Context, s bench.Store, name string, noRun error) *fleet.Fleet {
	if f, err := readFleet(ctx, s, name); err == nil {
		return f
	}
	var p *Problem
	if !errors.As(noRun, &p) || p.Kind != NoRun || name == "" {
		return nil
	}
	f, err := FindFleet(ctx, s, name)
	if err != nil {
		return nil
	}
	return f
}

// Remove removes runs and fleets, and calls each for every one that is gone, until one cannot be. It
// gives their room back to the file system unless a run of this state directory is under
// way: that would have to wait for it. What is wrong with giving it back is an error that
// wraps ErrRoom, and the runs are gone all the same.
func (a *App) Remove(ctx context.Context, s bench.Store, ids []string, each func(id string)) error {
	for _, id := range ids {
		if a.UnderWay(id) { // since it was looked up
			return isUnderWay(id)
		}
		if err := removeOne(ctx, s, id); err != nil {
			return err
		}
		each(id)
	}
	c, ok := s.(bench.Compacter)
	if !ok || len(ids) == 0 {
		return nil
	}
	if len(a.othersUnderWay("")) > 0 {
		return ErrRoom
	}
	if err := c.Compact(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrRoom, err)
	}
	return nil
}

// removeOne removes a run, or what ties the runs of a fleet.
func removeOne(ctx context.Context, s bench.Store, id string) error {
	if k, ok := s.(bench.FleetKeeper); ok {
		if err := k.RemoveFleet(ctx, id); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return s.Remove(ctx, id)
}

// ErrRoom says that the room of removed runs is used by the next ones, and not given back.
var ErrRoom = errors.New("the file stays as large as it is; the next runs use the room")
