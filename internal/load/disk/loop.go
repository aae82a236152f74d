package disk

import (
	"fmt"
	"syscall"
	"time"
)

// A ring submits requests to the kernel and reports which are done. It belongs to the
// thread that made it.
type ring interface {
	// submit submits the request of a slot.
	submit(slot int, offset int64) error
	// wait waits until at least one request is done. It puts the completions at the
	// beginning of done, and returns their number.
	wait(done []completion) (int, error)
	// close gives up requests in flight.
	close() error
}

// A completion is a request that is done.
type completion struct {
	slot   int
	result int // bytes, or a negative error number
}

// check returns the error of a request.
func (c completion) check(want int) error {
	switch {
	case c.result < 0:
		return syscall.Errno(-c.result)
	case c.result != want:
		return fmt.Errorf("a request of %d bytes transferred only %d", want, c.result)
	default:
		return nil
	}
}

// keepFull keeps a ring full until the tally's time is over: when a request is done, it
// submits another one at once. Submitting several together would cost less, but leave the
// disk with less to do while they are collected.
func keepFull(r ring, w work, t *tally) error {
	next := w.cursor()
	begun := make([]time.Duration, len(w.slots))
	done := make([]completion, len(w.slots))
	t.start()
	begin := func(slot int) error {
		if w.write {
			stamp(w.slots[slot])
		}
		begun[slot] = t.now()
		return r.submit(slot, next.next())
	}
	fill := func() error {
		for slot := range w.slots {
			if err := begin(slot); err != nil {
				return err
			}
		}
		return nil
	}
	if err := fill(); err != nil {
		return err
	}
	for under := len(w.slots); under > 0; {
		n, err := r.wait(done)
		if err != nil {
			return err
		}
		now := t.now()
		for _, c := range done[:n] {
			if err := c.check(int(w.block())); err != nil {
				return err
			}
			t.add(now, now-begun[c.slot])
			t.clock.Did(1)
			if t.isOver(now) || t.clock.Over(now) {
				under--
			} else if err := begin(c.slot); err != nil {
				return err
			}
		}
		if under > 0 || t.isOver(now) {
			continue
		}
		t.clock.Rest(now) // the slice is over, and no request is under way
		if err := fill(); err != nil {
			return err
		}
		under = len(w.slots)
	}
	t.clock.End()
	return nil
}
