// Package syscalls counts the system calls of every process on this host, by a
// program of a few instructions that the kernel runs at the entry of each.
//
// That makes every system call of the machine slower for as long as a Counter is
// open, so nobody has one who did not ask for it.
package syscalls

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
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

// Open begins to count. Where this is not allowed or cannot be done here, the
// error wraps bench.ErrUnsupported and says why and what to do.
func Open() (*Counter, error) {
	if err := inFirstNamespace(); err != nil {
		return nil, err
	}
	c := &Counter{}
	before := callTime()
	if err := c.attach(); err != nil {
		return nil, errors.Join(refusal(err), c.Close())
	}
	c.cost = max(0, callTime()-before)
	return c, nil
}

// Cost is by how much the Counter made a system call of this machine slower, as
// measured when it was opened: at the least, on an idle CPU.
func (c *Counter) Cost() time.Duration { return c.cost }

// Metrics implements bench.Instrument: it counts by process, and nothing by trial.
func (*Counter) Metrics() []bench.Metric { return nil }

// Begin implements bench.Instrument.
func (*Counter) Begin(bench.Trial, time.Duration) {}

// End implements bench.Instrument.
func (*Counter) End([]float64) {}

// SystemCalls is how many system calls all threads of a process have begun since its
// program was executed, or since Open; NaN of a process that has ended or made
// none. A system call that a seccomp filter refused is none. Of a process that
// makes none while maxProcesses others do, what was counted can be lost. It may
// be called from any goroutine.
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

// Close ends the counting; nothing of it stays in the kernel.
func (c *Counter) Close() error {
	var errs []error
	for _, f := range c.close {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// attach loads the programs and has the kernel run them.
func (c *Counter) attach() (err error) {
	defer lockFreely()()
	if c.counts, err = newCounts(); err != nil {
		return err
	}
	c.close = append(c.close, c.counts.Close)
	for _, hook := range hooks(c.counts) {
		if err := c.run(hook); err != nil {
			return fmt.Errorf("tracepoint %s: %w", hook.tracepoint, err)
		}
	}
	return nil
}

func (c *Counter) run(h hook) error {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "tare_" + h.name, Type: ebpf.RawTracepoint, Instructions: h.code})
	if err != nil {
		return err
	}
	defer func() { _ = program.Close() }() // what is attached keeps it
	attached, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: h.tracepoint, Program: program})
	if err != nil {
		return err
	}
	c.close = append(c.close, attached.Close)
	return nil
}

// lockFreely takes away the limit of locked memory until the returned function is
// called: before Linux 5.11 maps counted as such. It comes back, because what tare
// starts inherits it.
func lockFreely() (restore func()) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &before); err != nil {
		return func() {}
	}
	set := func(l unix.Rlimit) { _ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &l) } // who may not needs not, on newer kernels
	set(unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	return func() { set(before) }
}

// inFirstNamespace refuses to count where processes have other numbers than those
// that the kernel's program sees. The number of the first namespace is part of
// the kernel's ABI.
func inFirstNamespace() error {
	const first = "pid:[4026531836]"
	if ns, err := os.Readlink("/proc/self/ns/pid"); err != nil || ns != first {
		return fmt.Errorf("%w: tare has a PID namespace of its own, in which processes have other numbers: run it on the host itself", bench.ErrUnsupported)
	}
	return nil
}

// refusal says what an error of the kernel means here.
func refusal(err error) error {
	switch lock, _ := os.ReadFile("/sys/kernel/security/lockdown"); {
	case strings.Contains(string(lock), "[confidentiality]"):
		return fmt.Errorf("%w: this kernel is locked down (confidentiality), and runs no programs that look at processes: %w", bench.ErrUnsupported, err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: needs root, or CAP_BPF and CAP_PERFMON", bench.ErrUnsupported)
	default:
		return fmt.Errorf("%w: this kernel refuses, where Linux 4.17 with CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS would not: %w", bench.ErrUnsupported, err)
	}
}

// callTime is what the cheapest system call takes: the least of many means, since
// whatever else happens can only make one longer.
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
