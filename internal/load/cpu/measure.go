package cpu

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/turn"
)

const (
	// sliceTime is how long a kernel runs, at least for one chunk, before the next one has its
	// turn. Short turns spread what happens to the CPU over all kernels.
	sliceTime = time.Millisecond
	// chunkCount is the number of parts of a kernel's time. The clock is read once for each.
	chunkCount = 512
	// maxChunks is the room for chunks: they may be shorter than planned.
	maxChunks = 4 * chunkCount
)

// A pool is a set of kernels with the data of the threads that run them.
type pool struct {
	turns    *turn.Page
	kernels  []kernel
	shortest []time.Duration // by kernel: the shortest operation seen
	workers  []worker
}

// A worker is the data of one thread, made before anything is timed.
type worker struct {
	operations []func() uint64   // by kernel
	chunkTimes [][]time.Duration // by kernel: the time of each chunk; empty, with room for maxChunks
}

func newPool(page *turn.Page, kernels []kernel, threads int) *pool {
	c := &pool{
		turns: page, kernels: kernels, shortest: make([]time.Duration, len(kernels)), workers: make([]worker, threads),
	}
	for i := range c.workers {
		for _, k := range kernels {
			c.workers[i].operations = append(c.workers[i].operations, k.prepare())
			c.workers[i].chunkTimes = append(c.workers[i].chunkTimes, make([]time.Duration, 0, maxChunks))
		}
	}
	return c
}

// warm runs each kernel on one thread, and measures how long its operation takes
// undisturbed.
func (c *pool) warm(share time.Duration) error {
	for i, k := range c.kernels {
		quick, err := k.measureShortest(c.workers[0].operations[i], share/time.Duration(len(c.kernels)))
		if err != nil {
			return err
		}
		c.shortest[i] = quick
	}
	return nil
}

func (k kernel) measureShortest(operation func() uint64, share time.Duration) (quick time.Duration, err error) {
	began := time.Now()
	for elapsed := time.Duration(0); quick == 0 || elapsed < share; {
		if err := k.check(operation()); err != nil {
			return 0, err
		}
		now := time.Since(began)
		if took := max(now-elapsed, 1); quick == 0 || took < quick {
			quick = took
		}
		elapsed = now
	}
	return quick, nil
}

func (k kernel) check(answer uint64) error {
	if answer != k.want {
		return fmt.Errorf(
			"kernel %s: the answer is %d but should be %d: this machine computes wrong results",
			k.name, answer, k.want)
	}
	return nil
}

// work runs the kernels in turns for a share of the time, on that many threads at once. Slices are the speeds
// in the slices of a process that takes turns.
func (c *pool) work(threads int, share time.Duration) (segments []segment, slices []float64, err error) {
	segments, errs := make([]segment, threads), make([]error, threads)
	chunks := make([]chunk, len(c.kernels))
	for i, quick := range c.shortest {
		n := max(int(share/time.Duration(len(c.kernels))/chunkCount/quick), 1)
		chunks[i] = chunk{n, float64(n) * quick.Seconds()}
	}
	slices = load.RunThreads(c.turns, threads, func(i int, clock *turn.Clock) {
		runtime.LockOSThread() // its CPU time is read
		defer runtime.UnlockOSThread()
		segments[i], errs[i] = c.workers[i].run(c.kernels, chunks, clock, share)
	})
	return segments, slices, firstOf(errs)
}

// A chunk is the part of a kernel's work for which the clock is read once.
type chunk struct {
	operations int
	work       float64 // the time that it takes undisturbed, in seconds
}

func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// A segment is one thread's work.
type segment struct {
	rates []kernelRate  // by kernel
	wall  time.Duration // from the beginning to the end of the last chunk
	cpu   time.Duration // the part of it during which the thread had a CPU
}

// A kernelRate is the speed of one kernel.
type kernelRate struct {
	operations int // per chunk
	chunks     int // number of chunks
	// undisturbed is the time of an undisturbed chunk: only one in a hundred is faster.
	// Disturbances can only delay fixed work, so its shortest times show its real cost
	// (Chen & Revels, Robust benchmarking in noisy environments, 2016).
	undisturbed time.Duration
}

// run lets the kernels take turns until the share of time is over, each at least once.
// Turns begin at fixed times, so that threads stay together as long as a chunk is shorter
// than a turn. A thread that stood still would make up missed turns with one chunk each,
// with caches and branch predictors full of another kernel. So it skips whole rounds.
func (h worker) run(kernels []kernel, chunks []chunk, clock *turn.Clock, share time.Duration) (segment, error) {
	cpu, now, missed := threadTime(), time.Duration(0), time.Duration(0)
	for turns := 0; turns < len(kernels) || now < share; turns++ {
		late := max(now-missed-time.Duration(turns)*sliceTime, 0)
		missed += late.Truncate(time.Duration(len(kernels)) * sliceTime)
		i, until := turns%len(kernels), missed+time.Duration(turns+1)*sliceTime
		for more := true; more; more = now < until && len(h.chunkTimes[i]) < maxChunks {
			if err := kernels[i].repeat(h.operations[i], chunks[i].operations); err != nil {
				return segment{}, err
			}
			last := now
			now = clock.Now()
			clock.Did(chunks[i].work)
			h.chunkTimes[i] = append(h.chunkTimes[i], now-last)
		}
		clock.Pause(now)
	}
	return segment{h.kernelRates(chunks), now, threadTime() - cpu}, nil
}

func (k kernel) repeat(operation func() uint64, times int) error {
	for range times {
		if answer := operation(); answer != k.want {
			return k.check(answer)
		}
	}
	return nil
}

// kernelRates computes the paces from the times of the chunks, and resets those.
func (h worker) kernelRates(chunks []chunk) (all []kernelRate) {
	for i, took := range h.chunkTimes {
		slices.Sort(took)
		all = append(all, kernelRate{chunks[i].operations, len(took), max(took[len(took)/100], 1)})
		h.chunkTimes[i] = took[:0]
	}
	return all
}

// threadTime is the CPU time of this thread.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // cannot fail: every Linux has this clock
	return time.Duration(t.Nano())
}

// rates returns the operations per second of each kernel, summed over all threads: the
// rate of its smooth chunks, times share. A CPU quota or another process stops a thread
// in one kernel or another by chance; this way the loss counts for all kernels alike.
func rates(segments []segment, share func(segment) float64) []float64 {
	sums := make([]float64, len(segments[0].rates))
	for _, s := range segments {
		spent := share(s)
		for i, p := range s.rates {
			sums[i] += float64(p.operations) / p.undisturbed.Seconds() * spent
		}
	}
	return sums
}

// cpuShare is the share of the time for which the thread had a CPU. It does not count
// temporary slowdowns of that CPU, such as by a neighbour on the same core.
func (s segment) cpuShare() float64 { return min(s.cpu.Seconds()/s.wall.Seconds(), 1) }

// computeShare is the share of the time that the thread's work would take undisturbed: it counts
// every delay.
func (s segment) computeShare() float64 {
	smooth := 0.0
	for _, p := range s.rates {
		smooth += float64(p.chunks) * p.undisturbed.Seconds()
	}
	return smooth / s.wall.Seconds()
}
