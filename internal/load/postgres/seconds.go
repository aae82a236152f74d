package postgres

import (
	"math/bits"
	"time"
)

// A second has the transactions that ended well in one second of the measured time.
type second struct {
	ended   int64
	sum     time.Duration // of their times
	longest time.Duration
	times   *sketch // nil = none ended
}

// endedAt counts a transaction by when it ended.
func (t *tally) endedAt(at, took time.Duration) {
	i := int(at / time.Second)
	if i >= len(t.seconds) {
		return
	}
	s := &t.seconds[i]
	if s.times == nil { // made when the second comes: an hour has many
		s.times = new(sketch)
	}
	s.ended++
	s.sum += took
	s.longest = max(s.longest, took)
	s.times[place(took)]++
}

// add adds the same second of another thread.
func (s *second) add(o *second) {
	if o.times == nil {
		return
	}
	if s.times == nil {
		s.times = new(sketch)
	}
	s.ended += o.ended
	s.sum += o.sum
	s.longest = max(s.longest, o.longest)
	for i, n := range o.times {
		s.times[i] += n
	}
}

// percentile returns the time, in seconds, that at least p percent do not exceed; 0 if too few took longer for it to
// say anything: see MinTail.
func (s *second) percentile(p int64) float64 {
	if s.times == nil || p > 50 && s.ended*(100-p) < MinTail*100 {
		return 0
	}
	left := (s.ended*p + 99) / 100
	for i, n := range s.times {
		if left -= int64(n); left <= 0 {
			return min(middle(i), s.longest).Seconds()
		}
	}
	return s.longest.Seconds()
}

// A sketch counts times to within two percent. A histogram for each second of each thread would take forty times its
// memory.
type sketch [(octaves + 1) << stepBits]uint32

const (
	stepBits = 5             // an octave has 32 steps
	octaves  = 40 - stepBits // up to 2^40 ns, 18 minutes
	longest  = 1<<40 - 1     // longer ones count as this
	steps    = uint64(1) << stepBits
)

// place is the place of a time in a sketch: nanoseconds to 31, and then the octave and its step.
func place(d time.Duration) int {
	ns := uint64(min(max(d, 0), longest))
	if ns < steps {
		return int(ns)
	}
	octave := bits.Len64(ns) - stepBits // from 1
	return octave<<stepBits | int(ns>>(octave-1)&(steps-1))
}

// middle is the time in the middle of a place.
func middle(i int) time.Duration {
	octave, step := i>>stepBits, uint64(i)&(steps-1)
	if octave == 0 {
		return time.Duration(step)
	}
	width := uint64(1) << (octave - 1)
	return time.Duration((steps+step)*width + width/2)
}
