// Package syscalls counts the system calls of every process on this host. The kernel runs a program
// of a few instructions at the entry of each system call.
//
// That slows every system call of the machine while a Counter is open, so tare opens one only if
// the user asks for it.
package syscalls

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/bpf"
)

var (
	_ bench.Instrument  = (*Counter)(nil)
	_ bench.CallCounter = (*Counter)(nil)
)

// A Counter counts from Open to Close.
type Counter struct {
	counts *ebpf.Map // by process, for each CPU
	cost   time.Duration
	close  []func() error
}

// Open begins to count. If this is not allowed or not possible here, the error wraps
// bench.ErrUnsupported and says why and what to do.
func Open() (*Counter, error) {
	if err := bpf.InFirstNamespace(); err != nil {
		return nil, err
	}
	c := &Counter{}
	before := callTime()
	if err := c.attach(); err != nil {
		return nil, errors.Join(use.Refusal(err), c.Close())
	}
	c.cost = max(0, callTime()-before)
	return c, nil
}

// use says what Open needs.
var use = bpf.Use{
	What: "counting system calls", Rights: "CAP_BPF and CAP_PERFMON",
	Kernel: "Linux 4.17 or newer with CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS",
}

// Cost is how much longer a system call of this machine takes with the Counter. It was measured
// when the Counter was opened, on an idle CPU; more is possible.
func (c *Counter) Cost() time.Duration { return c.cost }

// Metrics implements bench.Instrument. There are none, because the Counter counts by process and
// not by trial.
func (*Counter) Metrics() []bench.Metric { return nil }

// Begin implements bench.Instrument.
func (*Counter) Begin(bench.Trial, time.Duration) {}

// End implements bench.Instrument.
func (*Counter) End([]float64) {}

// SystemCalls is how many system calls all threads of a process have begun since its program was
// executed, or since Open. It is NaN if the process has ended or made none. System calls that a
// seccomp filter refused do not count. The count of a process that makes no calls while
// maxProcesses others do can be lost. It may be called from any goroutine.
func (c *Counter) SystemCalls(pid int) float64 {
	var each []uint64
	if err := c.counts.Lookup(uint32(pid), &each); err != nil {
		return math.NaN()
	}
	sum := 0.0
	for _, n := range each {
		sum += float64(n)
	}
	return sum
}

// Close ends the counting and leaves nothing in the kernel.
func (c *Counter) Close() error {
	var errs []error
	for _, f := range c.close {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// attach loads the programs and attaches them to their tracepoints.
func (c *Counter) attach() (err error) {
	defer bpf.UnlimitMemlock()()
	if c.counts, err = newCounts(); err != nil {
		return err
	}
	c.close = append(c.close, c.counts.Close)
	for _, program := range programs(c.counts) {
		if err := c.run(program); err != nil {
			return fmt.Errorf("tracepoint %s: %w", program.tracepoint, err)
		}
	}
	return nil
}

func (c *Counter) run(h program) error {
	program, err := ebpf.NewProgram(
		&ebpf.ProgramSpec{Name: "tare_" + h.name, Type: ebpf.RawTracepoint, Instructions: h.code},
	)
	if err != nil {
		return err
	}
	defer func() { _ = program.Close() }() // its attachment keeps it loaded
	attached, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: h.tracepoint, Program: program})
	if err != nil {
		return err
	}
	c.close = append(c.close, attached.Close)
	return nil
}

// callTime is the duration of the cheapest system call: the smallest of many means, because any
// disturbance can only make a mean longer.
func callTime() time.Duration {
	const batches, calls = 30, 300
	least := time.Duration(math.MaxInt64)
	for range batches {
		began := time.Now()
		for range calls {
			unix.Getppid()
		}
		least = min(least, time.Since(began)/calls)
	}
	return least
}
