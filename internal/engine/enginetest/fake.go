package enginetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
)

// An Op is an operation of a Fake.
type Op string

// The operations of a Fake. Run is what the program inside does between its
// first and its last instruction; all others are methods.
const (
	OpProbe   Op = "probe"
	OpPrepare Op = "prepare"
	OpCreate  Op = "create"
	OpAttach  Op = "attach"
	OpInspect Op = "inspect"
	OpStart   Op = "start"
	OpRun     Op = "run"
	OpWait    Op = "wait"
	OpRemove  Op = "remove"
	OpPause   Op = "pause"
	OpResume  Op = "resume"
	OpExec    Op = "exec"
	OpSignal  Op = "signal"
	OpStop    Op = "stop"
	OpRestart Op = "restart"
	OpClose   Op = "close"
)

// Forever is a Delay that only the end of a context ends.
const Forever = time.Duration(1<<63 - 1)

// FakeConfig says how a Fake behaves. The zero value is an engine that does
// everything at once and well.
type FakeConfig struct {
	Name   string               // of the instance; "fake" if empty
	Seed   uint64               // of the latencies
	Takes  map[Op]time.Duration // typical latency of each operation; nothing if missing
	Jitter float64              // latencies are uniform within ± this share of the typical one; below 1
	Faults []Fault              // all that match a call take effect, in this order
	Images []string             // references that exist besides the agent's

	// Now is the host's clock, by which programs inside mark their
	// instructions; nil means the time since the Fake was made. ClockOffset is
	// how far the clock inside is ahead of it, for a sandbox with its own.
	Now         func() time.Duration
	ClockOffset time.Duration

	// Applied, if set, changes the result of Inspect: it simulates an engine that applies other
	// settings.
	Applied func(*bench.Applied)
}

// A Fault is an error or a delay of a call.
type Fault struct {
	Op             Op
	Call           int           // number of the call of Op, from 1; 0 means each call
	Delay          time.Duration // added to the latency; Forever hangs
	IgnoresContext bool          // the delay does not end with the call's context; with Forever, never
	Err            error         // the call's error, after the delay; nil to continue as usual
}

// A Fake is a bench.Engine that makes no containers, and takes the configured times. It uses
// timers, channels and no other process, so that it works inside testing/synctest. Latencies depend
// on the seed, the container's number and the operation, and not on what runs at the same time.
//
// Programs are tasks of the agent: mark, mark hold, exit, echo, env, print,
// spew, sleep, hold, tick and stubborn do as the agent does; every other task
// exits with 0 at once, so a load does not report. Any other program does not exist. Programs run by Exec
// take what OpExec takes, and no OpRun.
type Fake struct {
	config FakeConfig
	began  time.Time

	mu      sync.Mutex
	calls   []string
	counts  map[Op]int
	created int
	live    map[*fakeContainer]bool
}

// NewFake returns a Fake.
func NewFake(c FakeConfig) *Fake {
	if c.Name == "" {
		c.Name = "fake"
	}
	return &Fake{config: c, began: time.Now(), counts: map[Op]int{}, live: map[*fakeContainer]bool{}}
}

// Calls returns the operations so far, in the order in which they began, such
// as "create 1" and "start 1" for the first container; those of the engine
// itself have no number.
func (f *Fake) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// Live counts the containers that were created and not removed.
func (f *Fake) Live() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.live)
}

// Name implements bench.Engine.
func (f *Fake) Name() string { return f.config.Name }

// Probe implements bench.Engine.
func (f *Fake) Probe(ctx context.Context) (bench.EngineInfo, error) {
	return bench.EngineInfo{Name: f.config.Name, Driver: "fake", Version: "1"}, f.do(ctx, OpProbe, 0)
}

// Prepare implements bench.Engine.
func (f *Fake) Prepare(ctx context.Context, spec bench.Spec) error {
	return errors.Join(f.do(ctx, OpPrepare, 0), f.check(spec))
}

// Create implements bench.Engine.
func (f *Fake) Create(ctx context.Context, spec bench.Spec) (bench.Container, error) {
	f.mu.Lock()
	f.created++
	n := f.created
	f.mu.Unlock()
	if err := errors.Join(f.do(ctx, OpCreate, n), f.check(spec)); err != nil {
		return nil, err
	}
	c := newFakeContainer(f, n, spec)
	f.mu.Lock()
	f.live[c] = true
	f.mu.Unlock()
	return c, nil
}

// Restart implements bench.Restarter.
func (f *Fake) Restart(ctx context.Context) error { return f.do(ctx, OpRestart, 0) }

// Close implements bench.Engine.
func (f *Fake) Close(ctx context.Context) error { return f.do(ctx, OpClose, 0) }

// check refuses Specs that no engine supports, and images that do not exist.
func (f *Fake) check(spec bench.Spec) error {
	known := func(what, value string, values ...string) error {
		if slices.Contains(values, value) {
			return nil
		}
		return fmt.Errorf("%s: %w: %s %q", f.config.Name, bench.ErrUnsupported, what, value)
	}
	errs := []error{
		known("network", spec.Network, "", "none", "host", "bridge"),
		known("runtime", spec.Runtime, ""),
		known("snapshotter", spec.Snapshotter, ""),
		known("storage", spec.Storage, "", "layer", "volume", "bind", "tmpfs"),
		known("seccomp", spec.Security.Seccomp, "", "unconfined", bench.SeccompDocker),
	}
	for _, m := range spec.Mounts {
		errs = append(errs, known("mount type", m.Type, "bind", "tmpfs"))
	}
	if spec.Image != "" && spec.Image != image.Agent && !slices.Contains(f.config.Images, spec.Image) {
		errs = append(errs, fmt.Errorf("%s: image %s: %w", f.config.Name, spec.Image, fs.ErrNotExist))
	}
	return errors.Join(errs...)
}

// do records a call, takes its time, and fails if it is to fail. The container
// has a number; the engine itself is 0.
func (f *Fake) do(ctx context.Context, op Op, number int) error {
	f.mu.Lock()
	f.counts[op]++
	call := f.counts[op]
	name := string(op)
	if number > 0 {
		name += " " + strconv.Itoa(number)
	}
	f.calls = append(f.calls, name)
	f.mu.Unlock()

	if err := ctx.Err(); err != nil {
		return err
	}
	if err := bench.Sleep(ctx, f.latency(op, number, call)); err != nil {
		return err
	}
	for _, fault := range f.config.Faults {
		if fault.Op != op || fault.Call != 0 && fault.Call != call {
			continue
		}
		patient := ctx
		if fault.IgnoresContext {
			patient = context.WithoutCancel(ctx)
		}
		if err := bench.Sleep(patient, fault.Delay); err != nil {
			return err
		}
		if fault.Err != nil {
			return fmt.Errorf("%s: %s: %w", f.config.Name, name, fault.Err)
		}
	}
	return nil
}

// latency draws how long a call takes.
func (f *Fake) latency(op Op, number, call int) time.Duration {
	typical := f.config.Takes[op]
	if typical == 0 || f.config.Jitter == 0 {
		return typical
	}
	which := uint64(number)
	if number == 0 {
		which = uint64(call)
	}
	for _, c := range []byte(op) { // a stream of its own for each operation
		which = which*257 + uint64(c)
	}
	r := rand.New(rand.NewPCG(f.config.Seed, which))
	return typical + time.Duration(float64(typical)*f.config.Jitter*(2*r.Float64()-1))
}

// now is the clock inside.
func (f *Fake) now() time.Duration {
	if f.config.Now != nil {
		return f.config.Now() + f.config.ClockOffset
	}
	return time.Since(f.began) + f.config.ClockOffset
}
