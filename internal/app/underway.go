package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/unit"
)

// UnderWay reports whether a process of this machine measures a run now, or cleans up after
// it: whether it has the lock of the run's directory. Where there is no directory, or it
// is another user's, that cannot be seen, and it is not. Runs that are measured together on several
// hosts have one directory, by what their IDs have in common.
func (a *App) UnderWay(id string) bool {
	if a.state == "" {
		return false
	}
	common := id[:max(strings.LastIndexByte(id, '-'), 0)]
	return a.isLocked(id) || common != "" && a.isLocked(common)
}

// isLocked reports whether a process has the lock of a run's directory.
func (a *App) isLocked(id string) bool {
	name := filepath.Join(a.runDir(id), lockName)
	if mark, err := readMark(name); err != nil || mark != markOf(id) {
		return false
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // which gives the lock back
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	return errors.Is(err, syscall.EWOULDBLOCK)
}

// othersUnderWay lists the runs of this state directory that are under way, without one.
func (a *App) othersUnderWay(id string) (ids []string) {
	if a.state == "" {
		return nil
	}
	entries, _ := os.ReadDir(filepath.Join(a.state, "runs")) // what cannot be listed cannot be seen
	for _, e := range entries {
		if e.Name() != id && a.UnderWay(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids
}

// disturbers warns of runs that are under way when another one begins.
func disturbers(ids []string) []bench.Warning {
	return otherRuns(ids, "%s of this machine %s under way when this one began (%s): each disturbs the other")
}

// otherRuns warns of other runs, if there are any. The text has a place for how many, for "was" or "were", and for
// their IDs.
func otherRuns(ids []string, text string) []bench.Warning {
	if len(ids) == 0 {
		return nil
	}
	were := "was"
	if len(ids) > 1 {
		were = "were"
	}
	return []bench.Warning{{
		Code: analysis.CodeOtherRun,
		Text: fmt.Sprintf(text, unit.FormatCount(len(ids), "other run"), were, strings.Join(ids, ", ")),
		Hint: "measure again while no other run is under way",
	}}
}

// A neighbourWatch appends to a run, and sees which other runs are under way meanwhile. The end of the run tells.
type neighbourWatch struct {
	bench.RunWriter
	look func() []string // the other runs that are under way now
	told []string        // those that the header tells of
	came []string
}

// Append looks for other runs as well: it is called between trials, while nothing is timed.
func (w *neighbourWatch) Append(ctx context.Context, s bench.Sample) error {
	for _, id := range w.look() {
		if !slices.Contains(w.told, id) && !slices.Contains(w.came, id) {
			w.came = append(w.came, id)
		}
	}
	return w.RunWriter.Append(ctx, s)
}

func (w *neighbourWatch) Finish(ctx context.Context, e bench.End) error {
	slices.Sort(w.came)
	e.Warnings = append(e.Warnings,
		otherRuns(w.came, "%s of this machine %s under way at the same time (%s): each disturbs the other")...)
	return w.RunWriter.Finish(ctx, e)
}
