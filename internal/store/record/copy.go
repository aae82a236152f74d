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

// Copy stores a run that came from elsewhere: what an import does. It fails with
// an error for which errors.Is(err, fs.ErrExist) if the store has that run, and
// not only the beginning of it: see Copier.
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

// A Batcher is a bench.RunWriter that appends many samples at once in much less
// time than one by one: all of them, or none.
type Batcher interface {
	AppendAll(ctx context.Context, all []bench.Sample) error
}

// A Continuer is a bench.Store that can go on with a run that was imported in
// part, which is not to resume it: next is how many samples it must have.
type Continuer interface {
	Continue(ctx context.Context, id string, next int) (bench.RunWriter, error)
}

// A Copier stores one run from its pieces, of which it holds a few. Of a run
// that was imported in part, or extended since, the pieces that are stored are compared,
// and the others added. If it fails, what was added so far stays, incomplete.
type Copier struct {
	store  bench.Store
	header bench.Header
	w      bench.RunWriter // nil while all that came is stored already

	next func() (Event, error, bool) // the stored pieces; nil for a run that is new, or kept as it is
	stop func()
	at   int // how many samples are compared or added

	batch  []bench.Sample
	values int // of series in it, and of traces
}

// How many samples, or values of their series, are stored at once. An event of a trace
// takes about as much as eventV values.
const (
	maxBatch  = 512
	maxBatchV = 1 << 19
	eventV    = 16
)

// NewCopier begins to store a run.
func NewCopier(ctx context.Context, dst bench.Store, h bench.Header) (*Copier, error) {
	c := &Copier{store: dst, header: h, stop: func() {}}
	c.header.Imported = true
	var err error
	if c.w, err = dst.Create(ctx, c.header); !errors.Is(err, fs.ErrExist) {
		return c, err
	}
	c.w = nil
	c.next, c.stop = iter.Pull2(Stored(ctx, dst, h.ID))
	stored, err, _ := c.next()
	if err != nil {
		c.stop()
		return nil, err
	}
	if !stored.Header.Imported || !same(*stored.Header, c.header) {
		c.stop()
		c.next = nil // another run, or its original: it stays as it is
	}
	return c, nil
}

// Known reports whether all that came is stored already, and nothing was added.
func (c *Copier) Known() bool { return c.w == nil }

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
		return false, fmt.Errorf("run %s is stored in part, and differs from this one where trial %d is due", c.header.ID, c.at)
	}
	if e.Sample != nil {
		c.at++
	}
	return false, nil
}

// extends reports whether a piece is the extension of a run that another piece had ended.
func extends(piece, end Event) bool {
	return end.End != nil && piece.Resumption != nil && piece.Resumption.Extension != nil && piece.Resumption.Extension.Follows(end.End)
}

// samePiece compares two pieces. A value is the same with each of its bits, or
// if there is none.
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

// same compares what has a JSON of its own.
func same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// Flush stores what is held back.
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

// resume closes the writer and opens it again as the original run did, which was finished
// before if it was extended.
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

// Close releases what is open. What was not flushed is not stored.
func (c *Copier) Close() error {
	c.stop()
	if c.w == nil {
		return nil
	}
	return c.w.Close()
}
