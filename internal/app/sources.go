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
	"github.com/tare-bench/tare/internal/foreign/ab"
	"github.com/tare-bench/tare/internal/foreign/csv"
	"github.com/tare-bench/tare/internal/foreign/fio"
	"github.com/tare-bench/tare/internal/foreign/gobench"
	"github.com/tare-bench/tare/internal/foreign/hostsuite"
	"github.com/tare-bench/tare/internal/foreign/hyperfine"
	"github.com/tare-bench/tare/internal/foreign/iperf3"
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
		hyperfine.Source(),
		fio.Source(),
		iperf3.Source(),
		ab.Source(),
		gobench.Source(),
		csv.Source(),
	}
}

// Results says what to import of another program.
type Results struct {
	From   foreign.Source
	Names  []string // of files and directories; foreign.Stdin stands for Stdin
	Stdin  io.Reader
	Labels []bench.Label // for each run, in place of those with the same key that it has by itself
	Tool   string        // the version of tare
}

// ImportResults stores what another program has measured, each set of results as a run of its own, and returns those
// runs, also with an error. The same results with the same labels make the same run, so what is stored already stays
// as it is.
func ImportResults(
	ctx context.Context, s bench.Store, r Results,
) (all []ImportedRun, notes []bench.Warning, err error) {
	in, err := foreign.Open(r.Names, r.Stdin)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = in.Close() }() // it was only read
	sets, err := r.From.Read(in)
	if err != nil {
		return nil, nil, err
	}
	if len(sets) == 0 {
		return nil, nil, foreign.Errorf(strings.Join(r.Names, ", "), 0, "see docs/import.md for what is read",
			"there are no results of %s", r.From.Name)
	}
	for _, set := range sets {
		set.Labels = withLabels(set.Labels, r.Labels)
		run, err := newImport(&set, r.Tool)
		if err != nil {
			return all, notes, fmt.Errorf("%s: %w", strings.Join(r.Names, ", "), err)
		}
		notes = append(notes, run.Header.Warnings...)
		one := ImportedRun{ID: run.Header.ID, Samples: len(run.Samples), Status: "imported", Labels: set.Labels, Sums: true}
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

// withLabels adds labels, in place of those with the same key.
func withLabels(all, more []bench.Label) []bench.Label {
	kept := slices.DeleteFunc(slices.Clone(all), func(l bench.Label) bool {
		return slices.ContainsFunc(more, func(m bench.Label) bool { return m.Key == l.Key })
	})
	return append(kept, more...)
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
