package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"github.com/tare-bench/tare/internal/bench"
)

// Copy stores a run from elsewhere, as an import does. If the store already has the whole run,
// errors.Is(err, fs.ErrExist); if it has only its beginning, Copy adds the rest: see Copier.
func Copy(ctx context.Context, dst bench.Store, run *bench.Run) error {
	var c *Copier
	for e, err := range Events(run) {
		switch {
		case err != nil:
			return errors.Join(err, c.Close())
		case c == nil:
			if c, err = NewCopier(ctx, dst, *e.Header); err != nil {
				return err
			}
		default:
			if err := c.Add(ctx, e); err != nil {
				return errors.Join(err, c.Close())
			}
		}
	}
	err := errors.Join(c.Flush(ctx), c.Close())
	if err == nil && c.Known() {
		err = fmt.Errorf("run %s: %w", run.Header.ID, fs.ErrExist)
	}
	return err
}

// A Batcher is a bench.RunWriter that can append many samples at once, all or none, which is much
// faster than one by one.
type Batcher interface {
	AppendAll(ctx context.Context, all []bench.Sample) error
}

// A Continuer is a bench.Store that can continue a run that was imported only in part. That does
// not count as a resumption. next is how many samples the stored run must have.
type Continuer interface {
	Continue(ctx context.Context, id string, next int) (bench.RunWriter, error)
}

// A Copier stores one run piece by piece, and holds only a few pieces in memory. If the run was
// imported in part before, or extended since, it compares the stored pieces and adds the others. If
// it fails, the pieces so far stay stored, as an incomplete run. The name and the notes of a run are
// stored if the run is new; otherwise those in the store stay.
type Copier struct {
	store  bench.Store
	header bench.Header
	taken  *bench.NameTaken
	w      bench.RunWriter // nil while every piece so far was already stored

	next func() (Event, error, bool) // the stored pieces; nil if the run is new or stays as it is
	stop func()
	at   int // number of samples compared or added

	batch  []bench.Sample
	values int // number of values of series and traces in it
}

// How many samples, or values of their series, are stored at once. An event of a trace counts as
// eventV values.
const (
	maxBatch  = 512
	maxBatchV = 1 << 19
	eventV    = 16
)

// NewCopier begins to store a run.
func NewCopier(ctx context.Context, dst bench.Store, h bench.Header) (*Copier, error) {
	h.Imported = true
	return newCopier(ctx, dst, h)
}

// NewFetcher begins to store a run of another host that was started here. So it does not count as
// imported, and can be resumed. It fails with ErrDiffers if the store has another run with that ID:
// nothing of it would be stored, and its host would remove it.
func NewFetcher(ctx context.Context, dst bench.Store, h bench.Header) (*Copier, error) {
	h.Imported = false
	c, err := newCopier(ctx, dst, h)
	if err == nil && c.w == nil && c.next == nil {
		return nil, fmt.Errorf("another run has its ID: %w", ErrDiffers)
	}
	return c, err
}

func newCopier(ctx context.Context, dst bench.Store, h bench.Header) (*Copier, error) {
	c := &Copier{store: dst, header: h, stop: func() {}}
	var err error
	if c.w, err = dst.Create(ctx, c.header); errors.As(err, &c.taken) {
		c.header.Name = ""
		c.w, err = dst.Create(ctx, c.header)
	}
	if !errors.Is(err, fs.ErrExist) {
		return c, err
	}
	c.taken = nil
	c.w = nil
	c.next, c.stop = iter.Pull2(Stored(ctx, dst, h.ID))
	stored, err, _ := c.next()
	if err != nil {
		c.stop()
		return nil, err
	}
	if stored.Header.Imported != c.header.Imported || !same(unwritten(*stored.Header), unwritten(c.header)) {
		c.stop()
		c.next = nil // a different run, or the original: it stays as it is
	}
	return c, nil
}

// unwritten is a header without the name and the notes.
func unwritten(h bench.Header) bench.Header {
	h.Name, h.Remarks = "", nil
	return h
}

// Known reports whether every piece so far was already stored.
func (c *Copier) Known() bool { return c.w == nil }

// Name is what the run is called in the store, where it is new there. It has lost the name
// that it came with where taken is not nil.
func (c *Copier) Name() (name string, taken *bench.NameTaken) { return c.header.Name, c.taken }

// Add stores the next piece, or compares it with what is stored.
func (c *Copier) Add(ctx context.Context, e Event) error {
	if c.w == nil {
		if c.next == nil {
			return nil
		}
		if missing, err := c.compare(ctx, e); err != nil || !missing {
			return err
		}
	}
	switch {
	case e.Sample != nil:
		c.at++
		c.batch = append(c.batch, *e.Sample)
		for _, s := range e.Sample.Series {
			c.values += len(s.Values)
		}
		if t := e.Sample.Trace; t != nil {
			c.values += eventV * len(t.Events)
		}
		if len(c.batch) < maxBatch && c.values < maxBatchV {
			return nil
		}
		return c.Flush(ctx)
	case e.Resumption != nil:
		return errors.Join(c.Flush(ctx), c.resume(ctx, *e.Resumption))
	case e.End != nil:
		if err := c.Flush(ctx); err != nil {
			return err
		}
		return c.w.Finish(ctx, *e.End)
	}
	return nil
}

// ErrDiffers means that a run came again, and is not as it was before.
var ErrDiffers = errors.New("the stored part differs from this file")

// compare reports whether a piece is the first one that the store lacks.
func (c *Copier) compare(ctx context.Context, e Event) (missing bool, err error) {
	stored, err, ok := c.next()
	switch {
	case err != nil:
		return false, err
	case ok && extends(e, stored): // since it was stored
		c.stop()
		c.next = nil
		c.w, err = c.store.Resume(ctx, c.header.ID, *e.Resumption)
		return false, err
	case !ok:
		c.stop()
		c.next = nil
		s, can := c.store.(Continuer)
		if !can {
			return false, fmt.Errorf("run %s: %w, in part", c.header.ID, fs.ErrExist)
		}
		c.w, err = s.Continue(ctx, c.header.ID, c.at)
		return err == nil, err
	case extends(stored, e): // what came was written before
		return false, nil
	case !samePiece(stored, e):
		return false, fmt.Errorf("run %s is stored in part, and %w before trial %d: import it into another store with "+
			"--store", c.header.ID, ErrDiffers, c.at)
	}
	if e.Sample != nil {
		c.at++
	}
	return false, nil
}

// extends reports whether a piece is the extension of a run that another piece had ended.
func extends(piece, end Event) bool {
	return end.End != nil && piece.Resumption != nil && piece.Resumption.Extension != nil &&
		piece.Resumption.Extension.Follows(end.End)
}

// samePiece compares two pieces. Values are the same if all their bits are, or if both are NaN.
func samePiece(a, b Event) bool {
	if a.Sample == nil || b.Sample == nil {
		return same(a, b)
	}
	x, y := *a.Sample, *b.Sample
	values := len(x.Values) == len(y.Values)
	for i := 0; values && i < len(x.Values); i++ {
		v, ok := x.Value(i)
		w, okToo := y.Value(i)
		values = v == w && ok == okToo
	}
	x.Values, y.Values = nil, nil
	x.Began, y.Began = x.Began.UTC(), y.Began.UTC()
	return values && same(x, y)
}

// same compares two values by their JSON.
func same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// Flush stores the pieces that the Copier holds.
func (c *Copier) Flush(ctx context.Context) error {
	batch := c.batch
	c.batch, c.values = nil, 0
	if b, ok := c.w.(Batcher); ok && len(batch) > 1 {
		return b.AppendAll(ctx, batch)
	}
	for _, s := range batch {
		if err := c.w.Append(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// resume closes the writer and opens it again as the original run did, which was finished before if
// it was extended.
func (c *Copier) resume(ctx context.Context, r bench.Resumption) error {
	if r.Extension != nil {
		if err := c.w.Finish(ctx, r.Extension.After); err != nil {
			return err
		}
	}
	if err := c.w.Close(); err != nil {
		return err
	}
	w, err := c.store.Resume(ctx, c.header.ID, r)
	if err == nil {
		c.w = w
	}
	return err
}

// Close releases everything that is open. Pieces that were not flushed are not stored.
func (c *Copier) Close() error {
	c.stop()
	if c.w == nil {
		return nil
	}
	return c.w.Close()
}
