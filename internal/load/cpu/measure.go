package cpu

import (
	"fmt"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/load"
)

const (
	// chunks is into how many parts a kernel's time is cut. The clock is read
	// once for each.
	chunks = 256
	// maxChunks ends a spell whose parts are much shorter than planned.
	maxChunks = 4 * chunks
)

// A crew is a kernel with threads to run it.
type crew struct {
	kernel kernel
	hands  []hand
	quick  time.Duration // the shortest operation seen
}

// A hand is what one thread needs, made before anything is timed.
type hand struct {
	operation func() uint64
	chunks    []time.Duration // what each took; empty, with room for maxChunks
}

func newCrew(k kernel, threads int) crew {
	c := crew{kernel: k, hands: make([]hand, threads)}
	for i := range c.hands {
		c.hands[i] = hand{k.prepare(), make([]time.Duration, 0, maxChunks)}
	}
	return c
}

// warm runs the kernel on one thread for some time, and learns how long an
// operation takes when nothing comes between.
func (c *crew) warm(share time.Duration) error {
	began := time.Now()
	for elapsed := time.Duration(0); c.quick == 0 || elapsed < share; {
		if err := c.kernel.check(c.hands[0].operation()); err != nil {
			return err
		}
		now := time.Since(began)
		if took := max(now-elapsed, 1); c.quick == 0 || took < c.quick {
			c.quick = took
		}
		elapsed = now
	}
	return nil
}

func (k kernel) check(answer uint64) error {
	if answer != k.want {
		return fmt.Errorf("kernel %s: the answer is %d, and should be %d: this machine computes wrongly", k.name, answer, k.want)
	}
	return nil
}

// A spell is one kernel's work on one thread.
type spell struct {
	operations int           // in a chunk
	chunks     int           // how many there were
	smooth     time.Duration // what a chunk takes when nothing comes between: the first decile
	elapsed    time.Duration // until the end of the last
}

// work runs the kernel on that many threads at once.
func (c *crew) work(threads int, share time.Duration) ([]spell, error) {
	spells, errs := make([]spell, threads), make([]error, threads)
	operations := max(int(share/chunks/c.quick), 1)
	load.Together(threads, func(i int, began time.Time) {
		spells[i], errs[i] = c.hands[i].spell(c.kernel, began, operations, share)
	})
	return spells, firstOf(errs)
}

func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// spell repeats chunks until the share of time is over, and at least one.
func (h hand) spell(k kernel, began time.Time, operations int, share time.Duration) (spell, error) {
	s := spell{operations: operations}
	took := h.chunks
	for s.elapsed < share && len(took) < cap(took) {
		for range operations {
			if answer := h.operation(); answer != k.want {
				return s, k.check(answer)
			}
		}
		now := time.Since(began)
		took = append(took, now-s.elapsed)
		s.elapsed = now
	}
	s.chunks = len(took)
	slices.Sort(took)
	s.smooth = max(took[len(took)/10], 1)
	return s, nil
}

// rates returns the operations per second of each kernel, all threads added up,
// from spells by kernel and thread.
//
// What stops a thread (a CPU quota, another process) hits one kernel or another
// by chance, and the geometric mean would depend on which. So a kernel's rate is
// that of its smooth chunks, and the time in which a thread fell behind them is
// spread evenly over its kernels: together they take exactly the time that passed.
func rates(each [][]spell) []float64 {
	sums := make([]float64, len(each))
	for thread := range each[0] {
		var progress, passed float64
		for _, spells := range each {
			s := spells[thread]
			progress += float64(s.chunks) * s.smooth.Seconds()
			passed += s.elapsed.Seconds()
		}
		for i, spells := range each {
			s := spells[thread]
			sums[i] += float64(s.operations) / s.smooth.Seconds() * progress / passed
		}
	}
	return sums
}
