package disk

import (
	"fmt"
	"syscall"
	"time"
)

// A ring hands requests to the kernel and tells which are done. It belongs to
// the thread that made it.
type ring interface {
	// prepare puts the request of a slot in line.
	prepare(slot int, offset int64)
	// turn hands in what is in line, waits until at least one request is done,
	// and returns how many are, at the beginning of done.
	turn(done []completion) (int, error)
	// close gives up what is still under way.
	close() error
}

// A completion is a request that is done.
type completion struct {
	slot   int
	result int // bytes, or a negative error number
}

// check says what was wrong with a request.
func (c completion) check(want int) error {
	switch {
	case c.result < 0:
		return syscall.Errno(-c.result)
	case c.result != want:
		return fmt.Errorf("a request of %d bytes ended after %d", want, c.result)
	default:
		return nil
	}
}

// turnover keeps a ring full: whatever is done is begun anew at once, until the
// tally's time is over. The clock is read once for each turn.
func turnover(r ring, w work, t *tally) error {
	next, block := w.cursor(), int(w.block())
	begun := make([]time.Duration, len(w.slots))
	done := make([]completion, len(w.slots))
	t.start()
	for slot := range w.slots {
		begun[slot] = t.now()
		r.prepare(slot, next.next())
	}
	for under := len(w.slots); under > 0; {
		n, err := r.turn(done)
		if err != nil {
			return err
		}
		now := t.now()
		for _, c := range done[:n] {
			if err := c.check(block); err != nil {
				return err
			}
			t.add(now, now-begun[c.slot])
			if t.over(now) {
				under--
				continue
			}
			w.prepare(r, c.slot, next.next())
			begun[c.slot] = now
		}
	}
	return nil
}

// prepare puts a request in line. No two writes are of the same bytes.
func (w *work) prepare(r ring, slot int, offset int64) {
	if w.write {
		stamp(w.slots[slot])
	}
	r.prepare(slot, offset)
}
