package app

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
	"github.com/tare-bench/tare/internal/foreign/hostsuite"
	"github.com/tare-bench/tare/internal/foreign/pgbench"
	"github.com/tare-bench/tare/internal/foreign/pgbenchtools"
	"github.com/tare-bench/tare/internal/foreign/yabs"
	"github.com/tare-bench/tare/internal/store/record"
)

// Sources lists every program whose results can be imported.
func Sources() []foreign.Source {
	return []foreign.Source{
		pgbench.Source(),
		pgbenchtools.Source(),
		hostsuite.Source(),
		yabs.Source(),
	}
}

// ImportResults stores what another program has measured, each set of results as a run of its own,
// and returns those runs, also with an error. Names are files and directories; tool is the version
// of tare. The same results make the same run, so what is stored already stays as it is.
func ImportResults(
	ctx context.Context, s bench.Store, from foreign.Source, names []string, stdin io.Reader, tool string,
) (all []ImportedRun, notes []bench.Warning, err error) {
	in, err := foreign.Open(names, stdin)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = in.Close() }() // it was only read
	sets, err := from.Read(in)
	if err != nil {
		return nil, nil, err
	}
	if len(sets) == 0 {
		return nil, nil, foreign.Errorf(strings.Join(names, ", "), 0, "see docs/import.md for what is read",
			"there are no results of %s", from.Name)
	}
	for _, set := range sets {
		run, err := newImport(&set, tool)
		if err != nil {
			return all, notes, fmt.Errorf("%s: %w", strings.Join(names, ", "), err)
		}
		notes = append(notes, run.Header.Warnings...)
		one := ImportedRun{ID: run.Header.ID, Samples: len(run.Samples), Status: "imported", Sums: true}
		err = record.Copy(ctx, s, run)
		if errors.Is(err, fs.ErrExist) {
			one.Status, err = "already stored", nil
		}
		if err != nil {
			return all, notes, fmt.Errorf("run %s: %w", run.Header.ID, err)
		}
		all = append(all, one)
	}
	return all, notes, nil
}

// newImport makes the run of a set.
func newImport(set *foreign.Set, tool string) (*bench.Run, error) {
	if set.Found.IsZero() {
		set.Found = time.Now()
	}
	run, err := set.Run(tool)
	if err != nil {
		return nil, err
	}
	run.Header.ID, err = idOf(run)
	return run, err
}

// idOf makes the ID of imported results: it sorts by time as others do, and its end follows from
// what was measured. When a file was written is no part of that.
func idOf(run *bench.Run) (string, error) {
	unnamed, end := *run, *run.End
	unnamed.Header.ID, unnamed.Header.Tool, unnamed.End = "x", "", &end
	if !slices.ContainsFunc(run.Samples, func(s bench.Sample) bool { return !s.Began.IsZero() }) {
		unnamed.Header.Began, end.Time = time.Unix(0, 0).UTC(), time.Unix(0, 0).UTC()
	}
	sum := sha256.New()
	if err := record.WriteEvents(sum, record.Events(&unnamed)); err != nil {
		return "", err
	}
	content := base32.StdEncoding.EncodeToString(sum.Sum(nil))[:6]
	return strings.ToLower(run.Header.Began.UTC().Format("20060102-150405-") + content), nil
}
