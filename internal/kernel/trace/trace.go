// Package trace records what the kernel does for tare, for the daemons of an engine and for all that they
// start: processes, programs, who runs and who waits, who wakes whom, and system calls.
//
// It does so through programs at tracepoints with type information (BTF), which tare loads before the first
// trial and attaches for traced trials only. Nothing is left in the kernel when tare has ended, however.
package trace

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/bpf"
	"github.com/tare-bench/tare/internal/kernel/recording"
)

var (
	_ bench.Instrument = (*Tracer)(nil)
	_ bench.Tracer     = (*Tracer)(nil)
)

// Options say how much a Tracer can record. The zero value is right.
type Options struct {
	Buffer    int // bytes for the events of one trial, a power of two; 0 = 16 MiB, for some 250,000 events
	Processes int // that are followed in one trial; 0 = 16,384
	Stacks    int // that the kernel keeps apart, a power of two; 0 = 32,768. Others take more of the buffer
}

// A Tracer records traced trials. One goroutine uses it.
type Tracer struct {
	// Daemons returns the long-lived processes of the engine of a cell; nil = there are none.
	Daemons func(ctx context.Context, cell int) []int

	programs map[string]*ebpf.Program // by tracepoint
	missed   uint64                   // missedRuns of the trials so far
	kept     keptMaps
	reader   *ringbuf.Reader
	names    func() (symbols, error) // of the kernel's functions, read when they are first needed

	began    time.Duration // of the present trial's sample
	attached []link.Link
	present  *recording.Recording // nil unless the trial is traced
	raw      []rawEvent
}

// use says what Open needs. CAP_SYSLOG shows the addresses of the kernel's functions.
var use = bpf.Use{
	What: "a timeline", Rights: "CAP_BPF, CAP_PERFMON and CAP_SYSLOG",
	Kernel: "Linux 5.8 or newer with CONFIG_DEBUG_INFO_BTF and CONFIG_BPF_EVENTS",
}

// Open loads the programs and attaches none. If this is not allowed or not possible here, the error wraps
// bench.ErrUnsupported and says why and what to do.
func Open(o Options) (*Tracer, error) {
	if err := bpf.InFirstNamespace(); err != nil {
		return nil, err
	}
	t := &Tracer{names: sync.OnceValues(readSymbols)}
	err := t.load(o)
	if err != nil {
		err = use.Refusal(err)
	} else {
		err = symbolsShown()
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Close removes everything from the kernel.
func (t *Tracer) Close() error {
	errs := []error{t.detach()}
	if t.reader != nil {
		errs = append(errs, t.reader.Close())
	}
	for _, p := range t.programs {
		errs = append(errs, p.Close())
	}
	return errors.Join(append(errs, t.kept.close())...)
}

// Metrics implements bench.Instrument. There are none: a traced trial has no values.
func (*Tracer) Metrics() []bench.Metric { return nil }

// Begin implements bench.Instrument: if the trial is traced, it attaches the programs.
func (t *Tracer) Begin(trial bench.Trial, began time.Duration) {
	t.present, t.raw = nil, nil
	if !trial.Traced {
		return
	}
	t.began, t.present = began, &recording.Recording{}
	if err := t.start(trial.Cell); err != nil {
		t.present.Failed = err.Error()
	}
}

// End implements bench.Instrument: it detaches the programs and takes their events.
func (t *Tracer) End([]float64) {
	if t.present == nil {
		return
	}
	err := t.detach()
	if err == nil {
		err = t.drain()
	}
	if err != nil && t.present.Failed == "" {
		t.present.Failed = err.Error()
	}
}

// Trace implements bench.Tracer.
func (t *Tracer) Trace() iter.Seq[bench.TraceEvent] {
	return func(yield func(bench.TraceEvent) bool) {
		if t.present == nil {
			return
		}
		r := t.recording()
		e, err := recording.Encode(r)
		if err != nil {
			e, _ = recording.Encode(&recording.Recording{Failed: err.Error()}) // a reason is always encoded
		}
		yield(e)
	}
}

// recording is what the present trial has recorded.
func (t *Tracer) recording() *recording.Recording {
	if t.present.Failed == "" {
		if err := t.resolve(); err != nil {
			t.present.Failed = err.Error()
		}
	}
	return t.present
}

// daemonsTime is how long an engine may take to say which its daemons are.
const daemonsTime = 5 * time.Second

// start has the programs follow tare, the daemons of a cell's engine, and what these have started.
func (t *Tracer) start(cell int) error {
	if err := t.kept.empty(); err != nil {
		return fmt.Errorf("prepare to trace: %w", err)
	}
	roots := []int{os.Getpid()}
	if t.Daemons != nil {
		ctx, cancel := context.WithTimeout(context.Background(), daemonsTime)
		defer cancel()
		roots = append(roots, t.Daemons(ctx, cell)...)
	}
	if err := t.attach(); err != nil {
		return err
	}
	return t.follow(roots)
}

// mostListings bounds how often the processes are listed before all are followed: two suffice unless one starts another
// just then.
const mostListings = 10

// follow has the programs, which are attached, follow some processes and all that they have started. What these start
// from then on, the programs follow by themselves; what one has started before, but after it was listed, is in the next
// list.
func (t *Tracer) follow(roots []int) error {
	for range mostListings {
		all, err := processesBelow(roots)
		if err != nil {
			return fmt.Errorf("find the processes to trace: %w", err)
		}
		before := len(t.present.Processes)
		for _, p := range all {
			switch err := t.kept.followed.Update(uint32(p.ID), uint64(1), ebpf.UpdateNoExist); {
			case errors.Is(err, ebpf.ErrKeyExist): // listed before, or there is an event of its fork
			case err != nil:
				return fmt.Errorf("trace process %d: %w", p.ID, err)
			default:
				t.present.Processes = append(t.present.Processes, p)
			}
		}
		if len(t.present.Processes) == before {
			return nil
		}
	}
	return errors.New("find the processes to trace: they start others too fast")
}

// attach attaches all programs.
func (t *Tracer) attach() error {
	for _, at := range slices.Sorted(maps.Keys(t.programs)) {
		l, err := link.AttachTracing(link.TracingOptions{Program: t.programs[at]})
		if err != nil {
			return errors.Join(fmt.Errorf("tracepoint %s: %w", at, err), t.detach())
		}
		t.attached = append(t.attached, l)
	}
	return nil
}

// detach detaches all programs that are attached.
func (t *Tracer) detach() error {
	var errs []error
	for _, l := range slices.Backward(t.attached) {
		errs = append(errs, l.Close())
	}
	t.attached = nil
	return errors.Join(errs...)
}

// drain takes all events from the buffer, and how many were lost.
func (t *Tracer) drain() error {
	t.reader.SetDeadline(time.Unix(0, 1)) // do not wait for more
	var record ringbuf.Record
	for {
		err := t.reader.ReadInto(&record)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the events: %w", err)
		}
		if e, ok := parseEvent(record.RawSample); ok {
			t.raw = append(t.raw, e)
		}
	}
	var n lost
	if err := t.kept.lost.Lookup(uint32(0), &n); err != nil {
		return fmt.Errorf("read how many events were lost: %w", err)
	}
	missed, err := t.missedRuns()
	if err != nil {
		return fmt.Errorf("read how many events were lost: %w", err)
	}
	t.present.Lost, t.present.NoStack = int(n.Events+missed-t.missed), int(n.Stacks)
	t.missed = missed
	return nil
}

// missedRuns is how often the kernel has left out a program, because the same one ran on that CPU. Before Linux 5.12
// it does not say so.
func (t *Tracer) missedRuns() (sum uint64, err error) {
	for _, p := range t.programs {
		s, err := p.Stats()
		if err != nil {
			return 0, err
		}
		sum += s.RecursionMisses
	}
	return sum, nil
}
