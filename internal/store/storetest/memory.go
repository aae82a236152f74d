package storetest

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
)

var _ bench.Store = (*Memory)(nil)

// Memory is a Store that forgets, for tests of what uses a Store. It follows
// the same contract, and fails where a test asks it to.
type Memory struct {
	mu     sync.Mutex
	runs   map[string]*bench.Run
	faults map[int]error
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{runs: map[string]*bench.Run{}, faults: map[int]error{}}
}

// FailAppend makes every Append of a sample with that Seq fail with err and
// store nothing; nil repairs it.
func (m *Memory) FailAppend(seq int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults[seq] = err
}

// Create begins a run.
func (m *Memory) Create(ctx context.Context, h bench.Header) (bench.RunWriter, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := record.ValidateHeader(&h); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runs[h.ID] != nil {
		return nil, fmt.Errorf("run %s: %w", h.ID, fs.ErrExist)
	}
	m.runs[h.ID] = &bench.Run{Header: h}
	return &memoryWriter{store: m, id: h.ID}, nil
}

// Resume opens an incomplete run for appending, or a finished one to extend it.
func (m *Memory) Resume(ctx context.Context, id string, r bench.Resumption) (bench.RunWriter, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	run, err := m.open(id)
	if err != nil {
		return nil, err
	}
	if r.Extension == nil && run.End != nil {
		return nil, fmt.Errorf("run %s: %w", id, bench.ErrFinished)
	}
	if r.Extension != nil && !r.Extension.Follows(run.End) {
		return nil, fmt.Errorf("run %s: %w", id, bench.ErrExtended)
	}
	header := run.Header.Extended(run.Resumptions...)
	if err := record.ValidateResumption(&header, len(run.Samples), &r); err != nil {
		return nil, fmt.Errorf("run %s: %w", id, err)
	}
	run.End = nil
	run.Resumptions = append(run.Resumptions, r)
	return &memoryWriter{store: m, id: id, next: len(run.Samples)}, nil
}

// Open reads one run.
func (m *Memory) Open(ctx context.Context, id string) (*bench.Run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	run, err := m.open(id)
	if err != nil {
		return nil, err
	}
	c := *run
	c.Samples = slices.Clone(run.Samples)
	for i := range c.Samples {
		c.Samples[i].Values = slices.Clone(c.Samples[i].Values)
		c.Samples[i].Series = cloneSeries(c.Samples[i].Series)
		c.Samples[i].Distributions = slices.Clone(c.Samples[i].Distributions)
		c.Samples[i].Trace = cloneTrace(c.Samples[i].Trace)
	}
	c.Resumptions = slices.Clone(run.Resumptions)
	return &c, nil
}

func cloneSeries(all []bench.Series) []bench.Series {
	all = slices.Clone(all)
	for i := range all {
		all[i].Values = slices.Clone(all[i].Values)
	}
	return all
}

func cloneTrace(t *bench.Trace) *bench.Trace {
	if t == nil {
		return nil
	}
	c := bench.Trace{Events: slices.Clone(t.Events), LeftOut: t.LeftOut}
	for i := range c.Events {
		c.Events[i].Attributes = slices.Clone(c.Events[i].Attributes)
	}
	return &c
}

func (m *Memory) open(id string) (*bench.Run, error) {
	if run := m.runs[id]; run != nil {
		return run, nil
	}
	return nil, fmt.Errorf("run %.80q: %w", id, fs.ErrNotExist)
}

// Runs yields a summary of every run, newest first.
func (m *Memory) Runs(ctx context.Context) iter.Seq2[bench.RunSummary, error] {
	return func(yield func(bench.RunSummary, error) bool) {
		for _, r := range m.summaries() {
			if err := ctx.Err(); err != nil {
				yield(bench.RunSummary{}, err)
				return
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Find returns the IDs that begin or end with part, newest first.
func (m *Memory) Find(ctx context.Context, part string, limit int) (ids []string, err error) {
	for _, r := range m.summaries() {
		id := r.Header.ID
		if strings.HasPrefix(id, part) || strings.HasSuffix(id, part) {
			ids = append(ids, id)
		}
		if limit > 0 && len(ids) == limit {
			break
		}
	}
	return ids, ctx.Err()
}

func (m *Memory) summaries() []bench.RunSummary {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []bench.RunSummary
	for _, run := range m.runs {
		s := bench.RunSummary{Header: run.Header, Samples: len(run.Samples), End: run.End}
		for _, sample := range run.Samples {
			switch sample.Outcome {
			case bench.Failed, bench.TimedOut:
				s.Failed++
			case bench.OK:
				if sample.PartFailed() {
					s.Partly++
				}
			case bench.Canceled, bench.Skipped, bench.Unsupported:
			}
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b bench.RunSummary) int {
		return cmp.Or(b.Header.Began.Compare(a.Header.Began), cmp.Compare(b.Header.ID, a.Header.ID))
	})
	return all
}

// Close does nothing.
func (m *Memory) Close() error { return nil }

// memoryWriter appends to one run.
type memoryWriter struct {
	store *Memory
	id    string
	next  int
}

// change runs f on the run, if it can still be written by this writer.
func (w *memoryWriter) change(ctx context.Context, f func(*bench.Run) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	run := w.store.runs[w.id]
	err := error(nil)
	switch {
	case run.End != nil:
		err = bench.ErrFinished
	case len(run.Samples) != w.next:
		err = fmt.Errorf("trial %d is next here, but %d are stored", w.next, len(run.Samples))
	default:
		err = f(run)
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", w.id, err)
	}
	return nil
}

func (w *memoryWriter) Append(ctx context.Context, s bench.Sample) error {
	return w.change(ctx, func(run *bench.Run) error {
		header := run.Header.Extended(run.Resumptions...)
		if err := record.ValidateSample(&header, w.next, &s); err != nil {
			return err
		}
		if err := w.store.faults[s.Trial.Seq]; err != nil {
			return err
		}
		s.Values, s.Notes, s.Series = slices.Clone(s.Values), slices.Clone(s.Notes), cloneSeries(s.Series) // the caller may use them again
		s.Distributions, s.Parts, s.Trace = slices.Clone(s.Distributions), slices.Clone(s.Parts), cloneTrace(s.Trace)
		run.Samples = append(run.Samples, s)
		w.next++
		return nil
	})
}

func (w *memoryWriter) Finish(ctx context.Context, e bench.End) error {
	return w.change(ctx, func(run *bench.Run) error {
		if err := record.ValidateEnd(&e); err != nil {
			return err
		}
		run.End = &e
		return nil
	})
}

func (w *memoryWriter) Close() error { return nil }
