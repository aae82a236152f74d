package bench

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// An Engine makes containers. The native engine makes plain processes, so
// that "no container" is one more Engine and not a special case.
//
// No method returns a duration: the runner owns the clock. Methods may be
// called concurrently for different containers. Every object that an engine
// makes carries the run's ID, so that it is found after a crash.
type Engine interface {
	// Name is the name of this instance, used in plans, labels and file names.
	Name() string

	// Probe reports what is installed. See ErrUnsupported for its errors.
	// Probe changes nothing on the host and is never timed.
	Probe(ctx context.Context) (EngineInfo, error)

	// Prepare does everything about spec that must not be timed, such as
	// loading and unpacking the image. The runner calls it before each trial;
	// calling it again is harmless and, once the work is done, quick.
	Prepare(ctx context.Context, spec Spec) error

	// Create makes a container and does not start it. A Spec that the engine
	// cannot honour is refused with an error that wraps ErrUnsupported. If
	// Create fails, or ctx ends before it returns, nothing is left behind.
	Create(ctx context.Context, spec Spec) (Container, error)

	// Close releases what Prepare made (images, unpacked files, connections).
	// It is called once, after every container was removed.
	Close(ctx context.Context) error
}

// EngineInfo is what a Probe found out.
type EngineInfo struct {
	Name    string  `json:"name"`            // the instance, as Engine.Name
	Driver  string  `json:"driver"`          // the kind of engine, such as "oci"
	Version string  `json:"version"`         // of the engine itself; empty where it has none
	Facts   []Label `json:"facts,omitempty"` // what else matters: API version, storage driver, default runtime …
	// Away is where a Remoter makes its containers; nil for the run's own host.
	Away *Away `json:"away,omitempty"`
	// Options are how the instance was declared, so that a resumed run finds it
	// again. They are filled in by who declared it, not by Probe.
	Options map[string]string `json:"options,omitempty"`
}

// Away is another machine than the run's host.
type Away struct {
	Host      HostFacts     `json:"host"`
	Address   string        `json:"address"`       // at which it was reached
	RoundTrip time.Duration `json:"round_trip_ns"` // to it and back, the shortest of a few when the engine was probed
}

// A Container is one container (or process) made by an Engine. Its methods
// are called in the order Attach, Inspect, Start, Wait, Remove; only Create and
// Remove are certain to be called.
type Container interface {
	// ID is the engine's own identifier.
	ID() string

	// Attach sends what the container prints to stdout and stderr, either of
	// which may be nil to discard it. It is called at most once, before Start.
	// Without it, output is discarded. The writers are not called any more
	// once Wait has returned, and everything printed has reached them by then,
	// unless the context ended first. A writer's error stops the copying, not
	// the container. Where both are the same writer, it is called by one
	// goroutine at a time (see Outputs).
	Attach(ctx context.Context, stdout, stderr io.Writer) error

	// Inspect reads back what was applied.
	Inspect(ctx context.Context) (Applied, error)

	// Start returns once the engine says that the container runs. A program
	// that cannot be executed is an error here or, where the engine finds out
	// only later, of Wait.
	Start(ctx context.Context) error

	// Wait returns when the first process has exited. A non-zero status is
	// an Exit, not an error. When ctx ends first, Wait returns its error and
	// the container runs on. Wait may be called by several goroutines at once, and
	// again later until Remove: whatever became of the others, each call keeps to this,
	// and those that see the end return the same Exit.
	Wait(ctx context.Context) (Exit, error)

	// Remove kills and deletes the container with everything in it, whatever
	// its state, as the engine does it. It is given a context of its own, so
	// that it works after the trial's has ended. The first call repairs nothing:
	// what the engine cannot do is an error, and no duration. Later calls clean
	// up after one that failed, with retries and force, and there may be one
	// after success.
	Remove(ctx context.Context) error
}

// Exit is how the first process of a container ended.
type Exit struct {
	Code   int  // exit status; 128+Signal where a signal ended it
	Signal int  // 0 unless a signal ended it and the engine can tell
	OOM    bool // the kernel killed it for want of memory, where the engine can tell
}

// ExitOf is how a process of the host ended.
func ExitOf(state *os.ProcessState) Exit {
	s := state.Sys().(syscall.WaitStatus) // what it is on every Unix
	if s.Signaled() {
		return Exit{Code: 128 + int(s.Signal()), Signal: int(s.Signal())}
	}
	return Exit{Code: s.ExitStatus()}
}

// String says how the process ended, such as "exit status 3".
func (e Exit) String() string {
	switch {
	case e.OOM:
		return "killed: out of memory"
	case e.Signal != 0:
		return fmt.Sprintf("killed by signal %d", e.Signal)
	default:
		return fmt.Sprintf("exit status %d", e.Code)
	}
}

// The capabilities below are optional. An engine implements those that it
// has, and who needs one asks for it with As.
type (
	// An Inliner makes its containers in tare's own process, with no program
	// beside it. What tare uses in its trials is what they cost, and no overhead.
	Inliner interface{ Inline() }

	// A Remoter makes its containers on another machine than this one. Only a
	// Networked workload can use it: see CheckRemote.
	Remoter interface {
		// Lost is closed once the connection is lost by which what is prepared now
		// will be made. Containers may then run on for a while, and answer, but
		// are in nobody's hands.
		Lost() <-chan struct{}
	}

	// A Cgrouper says where the kernel accounts for a container that has been
	// created and not yet removed. Implemented by floor and oci, for the
	// counters of the process inside.
	Cgrouper interface {
		// Cgroup returns the path of the container's cgroup below the mount
		// point (v2) or below each controller's mount point (v1), such as
		// "/tare/ID". The error wraps ErrUnsupported where there is none.
		Cgroup(ctx context.Context, c Container) (string, error)
	}

	// A Pauser freezes every process of a running container, and thaws them.
	Pauser interface {
		Pause(ctx context.Context, c Container) error
		Resume(ctx context.Context, c Container) error
	}

	// An Execer runs one more process in a running container, as the
	// container's user and in its environment, and returns when that process has
	// exited. Stdout and stderr may be nil to discard, or the same, as for Attach;
	// everything printed has reached them by then. A non-zero status is an Exit, not an error. When ctx
	// ends first, the container stays usable: it can be removed.
	Execer interface {
		Exec(ctx context.Context, c Container, argv []string, stdout, stderr io.Writer) (Exit, error)
	}

	// A Signaler sends a signal to the first process of a running container,
	// and returns once the engine says that it was sent.
	Signaler interface {
		Signal(ctx context.Context, c Container, s syscall.Signal) error
	}

	// A Stopper has a stop of its own: SIGTERM to the first process, SIGKILL
	// once grace, whole seconds, is over. Stop returns when the engine says that
	// the container has stopped. How its process ended is for Wait to say. Where
	// an engine is none, a Signaler's SIGTERM and Wait are the same thing.
	Stopper interface {
		Stop(ctx context.Context, c Container, grace time.Duration) error
	}

	// A Checkpointer writes the state of a running container to disk and ends
	// its processes, and brings it back from there.
	Checkpointer interface {
		// Checkpointable says why it cannot be done here; the error wraps
		// ErrUnsupported. It changes nothing and is never timed.
		Checkpointable(ctx context.Context) error
		Checkpoint(ctx context.Context, c Container) error
		Restore(ctx context.Context, c Container) error
	}

	// A Verifier looks whether what an engine said it has removed is gone.
	Verifier interface {
		// Gone is called after the first Remove of a container, outside of what is
		// timed. After an error that Remove has failed, and the next one cleans up.
		Gone(ctx context.Context, c Container) error
	}

	// A Sandboxer makes a container in two steps that are operations of their
	// own: the sandbox (pod), and the container in it. Create of such an engine
	// makes both, and its containers' Remove removes both.
	Sandboxer interface {
		Sandbox(ctx context.Context, spec Spec) (Sandbox, error)
	}

	// An Overseer says which processes of this host belong to the engine and
	// its containers, so that what they use is attributed by process tree.
	Overseer interface {
		// Daemons returns the IDs of the engine's long-lived processes; none
		// where it has none. Their children are theirs too.
		Daemons(ctx context.Context) ([]int, error)
		// Pid returns the ID of a started container's first process. What
		// lies between it and the first process of the host (a shim, a monitor)
		// serves this container alone. Of one that has exited it is the ID that
		// was, or an error that is not ErrUnsupported.
		Pid(ctx context.Context, c Container) (int, error)
	}

	// An Addresser says how a client reaches a port of a running container.
	Addresser interface {
		// Address returns where a client on this host connects to for the port p of
		// Spec.Ports, by the way that Spec.Reach names. The error wraps
		// ErrUnsupported where nobody outside can reach it. Of a container that has
		// exited it is the address that was, or an error that is not ErrUnsupported.
		Address(ctx context.Context, c Container, p Port) (netip.AddrPort, error)
		// Path returns what a packet to that address passes on its way, read from
		// the kernel: such as "loopback", "docker-proxy", "bridge docker0", "veth".
		Path(ctx context.Context, c Container, p Port) ([]string, error)
	}

	// An ImageLoader takes an image into the store that its users' own tools work
	// with, where it stays until they remove it.
	ImageLoader interface {
		// LoadImage reads an archive as "docker save" writes it, of one image under a
		// full name such as "tare.local/nginx:latest". The name means that image
		// afterwards, and no longer what it meant before. Digest is that of the
		// image's configuration: another one in the store is an error.
		LoadImage(ctx context.Context, archive io.Reader, name, digest string) error
	}

	// A DataKeeper keeps the data of its containers elsewhere than in DataDir:
	// a plain process sees the host's files as they are.
	DataKeeper interface {
		// DataDir returns where the next container of this spec finds it. The
		// directory is there once Create has returned.
		DataDir(spec Spec) (string, error)
	}

	// A DataHolder keeps data that outlive containers: those of the run with the same
	// Spec.DataName, Storage and Data find in DataDir what the others left there. The
	// first finds it empty. What is left when the engine is closed is removed with it. A
	// name has at most 32 lower-case letters, digits and "-", a letter first.
	DataHolder interface {
		// RemoveData removes the data that Spec names, which no container has any more.
		// Twice is fine.
		RemoveData(ctx context.Context, spec Spec) error
	}

	// An ImageFinder has a store of its own, in which images have names.
	ImageFinder interface {
		// FindImage returns an error that wraps ErrNoImage where the store has no image of
		// this name. Any other error means "could not find out". It fetches nothing and
		// changes nothing.
		FindImage(ctx context.Context, name string) error
	}

	// An ImageSaver gives away images of the engine's own store.
	ImageSaver interface {
		// SaveImage writes the image that the engine knows by this name as an archive:
		// what "docker save" writes, or an OCI image layout. It fetches nothing and
		// changes nothing. What it has written before an error is worthless.
		SaveImage(ctx context.Context, name string, w io.Writer) error
	}

	// A Puller fetches images from a registry into its own store.
	Puller interface {
		// Pull fetches spec.Image, "127.0.0.1:PORT/NAME:TAG" with a name of
		// PullRepository's, from a registry on loopback that speaks HTTP without TLS, and
		// returns once the engine says that containers of spec can be made of it: it is
		// unpacked as far as this engine does that before a container is made. Where Pull
		// fails, or ctx ends before it returns, no image of that name is left.
		Pull(ctx context.Context, spec Spec) error
		// Evict removes an image that Pull has fetched, with everything that was
		// unpacked of it, and nothing else. It is not an error if it is gone. Like
		// Remove of a container it works after the trial's context has ended.
		Evict(ctx context.Context, spec Spec) error
	}

	// A Restarter restarts the engine's daemon and returns when it answers
	// again, for experiments that ask for it.
	Restarter interface {
		Restart(ctx context.Context) error
	}

	// A Cleaner finds and removes what a run that has died left with this
	// engine: exactly the objects that carry its run's ID.
	Cleaner interface {
		// Leftovers lists the objects of every run for which dead reports
		// true. It changes nothing.
		Leftovers(ctx context.Context, dead func(run string) bool) ([]Leftover, error)
		// RemoveLeftover removes one. It is not an error if it is gone.
		RemoveLeftover(ctx context.Context, l Leftover) error
	}
)

// A Sandbox is what containers of a Sandboxer live in, such as a pod.
type Sandbox interface {
	ID() string
	// Create makes the container of the sandbox. Its Remove removes it alone.
	Create(ctx context.Context) (Container, error)
	// Stop ends what runs in the sandbox and releases its network.
	Stop(ctx context.Context) error
	// Remove removes the sandbox with everything in it, whatever its state.
	// Twice is fine; it works after the trial's context has ended.
	Remove(ctx context.Context) error
}

// A Leftover is one object that a dead run left on the host.
type Leftover struct {
	Run    string `json:"run"`
	Engine string `json:"engine"`
	Kind   string `json:"kind"` // "container", "sandbox", "image", "snapshot", "process", "mount", "cgroup", "directory", "data", "network", "volume", "device"
	ID     string `json:"id"`
}

// Dispose removes a container outside of what is timed: once more where the first call
// fails, or where the engine has removed less than it says.
func Dispose(ctx context.Context, e Engine, c Container) error {
	err := c.Remove(ctx)
	if v, ok := As[Verifier](e); ok && err == nil {
		err = v.Gone(ctx, c)
	}
	if err != nil {
		err = c.Remove(ctx)
	}
	return err
}

// Own returns a container as the type of a driver, whose instance has that name. One of
// another driver is ErrUnsupported.
func Own[T Container](c Container, engine string) (T, error) {
	own, ok := c.(T)
	if !ok {
		return own, fmt.Errorf("%w: container %s is not of %s", ErrUnsupported, c.ID(), engine)
	}
	return own, nil
}

// As returns the capability T of e, looking through wrappers that have an
// Unwrap() Engine method.
func As[T any](e Engine) (T, bool) {
	for e != nil {
		if t, ok := e.(T); ok {
			return t, true
		}
		w, ok := e.(interface{ Unwrap() Engine })
		if !ok {
			break
		}
		e = w.Unwrap()
	}
	var zero T
	return zero, false
}
