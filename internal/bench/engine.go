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
// "no container" is one more Engine and not a special case.
//
// No method returns a duration: the runner owns the clock. Methods may be
// called concurrently for different containers. Every object that an engine
// makes carries the run's ID, so that tare finds it after a crash.
type Engine interface {
	// Name is the name of this instance, used in plans, labels and file names.
	Name() string

	// Probe reports what is installed. See ErrUnsupported for its errors.
	// Probe changes nothing on the host and is never timed.
	Probe(ctx context.Context) (EngineInfo, error)

	// Prepare does all work for spec that must not be timed, such as loading
	// and unpacking the image. The runner calls it before each trial; calling
	// it again is harmless and, once the work is done, quick.
	Prepare(ctx context.Context, spec Spec) error

	// Create makes a container and does not start it. A Spec that the engine
	// cannot honour is refused with an error that wraps ErrUnsupported. If
	// Create fails, or ctx ends before it returns, nothing is left behind.
	Create(ctx context.Context, spec Spec) (Container, error)

	// Close releases what Prepare made (images, unpacked files, connections).
	// It is called once, after every container was removed.
	Close(ctx context.Context) error
}

// EngineInfo is the result of a Probe.
type EngineInfo struct {
	Name    string  `json:"name"`            // the instance, as Engine.Name
	Driver  string  `json:"driver"`          // the kind of engine, such as "oci"
	Version string  `json:"version"`         // of the engine itself; empty if it has none
	Facts   []Label `json:"facts,omitempty"` // other facts that matter: API version, storage driver, default runtime …
	// Away is the machine on which a Remoter makes its containers; nil for the run's
	// own host.
	Away *Away `json:"away,omitempty"`
	// Options are those with which the instance was declared, so that a resumed run
	// can declare it again. The code that declares it fills them in, not Probe.
	Options map[string]string `json:"options,omitempty"`
	// BuiltIn says that the name alone declares the instance, with these options. It is filled in likewise.
	BuiltIn bool `json:"built_in,omitempty"`
}

// Fact is the value of a fact; empty if it is not known.
func (i *EngineInfo) Fact(key string) string {
	for _, f := range i.Facts {
		if f.Key == key {
			return f.Value
		}
	}
	return ""
}

// Away is a machine other than the run's host.
type Away struct {
	Host      HostFacts     `json:"host"`
	Address   string        `json:"address"`       // the address that tare connected to
	RoundTrip time.Duration `json:"round_trip_ns"` // to it and back: the shortest of a few, when the engine was probed
}

// A Container is one container (or process) made by an Engine. Its methods
// are called in the order Attach, Inspect, Start, Wait, Remove; only Create and
// Remove are certain to be called.
type Container interface {
	// ID is the engine's own identifier.
	ID() string

	// Attach copies the container's output to stdout and stderr; nil discards
	// it. It is called at most once, before Start. Without it, output is
	// discarded. When Wait returns, all output has reached the writers, and they
	// are not called any more, unless the context ended first. A writer's error
	// stops the copying, not the container. If both are the same writer, one
	// goroutine at a time calls it (see Outputs).
	Attach(ctx context.Context, stdout, stderr io.Writer) error

	// Inspect reads back what was applied.
	Inspect(ctx context.Context) (Applied, error)

	// Start returns once the engine says that the container runs. A program
	// that cannot be executed is an error of Start or, if the engine finds out
	// only later, of Wait.
	Start(ctx context.Context) error

	// Wait returns when the first process has exited. A non-zero status is
	// an Exit, not an error. When ctx ends first, Wait returns its error and
	// the container runs on. Several goroutines may call Wait at once, and again
	// later until Remove: each call keeps this contract whatever became of the
	// others, and all calls that see the end return the same Exit.
	Wait(ctx context.Context) (Exit, error)

	// Remove kills and deletes the container with everything in it, whatever
	// its state, as the engine does it. It gets a context of its own, so that it
	// works after the trial's has ended. The first call repairs nothing: if the
	// engine fails, that is an error and not a duration. Later calls clean up
	// after a failed one, with retries and force. Remove may also be called again
	// after it succeeded.
	Remove(ctx context.Context) error
}

// Exit says how the first process of a container ended.
type Exit struct {
	Code   int  // exit status; 128+Signal if a signal ended it
	Signal int  // 0 unless a signal ended it and the engine can tell
	OOM    bool // the kernel killed it for lack of memory, if the engine can tell
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

// The capabilities below are optional. An engine implements those that it has;
// a caller asks for one with As.
type (
	// An InProcessEngine makes its containers in tare's own process, without another
	// program. So the CPU time that tare uses in its trials is their cost, and
	// not overhead.
	InProcessEngine interface{ InProcess() }

	// A Remoter makes its containers on another machine. Only a Networked
	// workload can use it: see CheckRemote.
	Remoter interface {
		// Lost is closed once the current connection to that machine is lost.
		// Containers may then run on for a while, and answer, but are no longer
		// managed by anyone.
		Lost() <-chan struct{}
	}

	// A Cgrouper names the control group of a container that has been created
	// and not yet removed. Implemented by floor and oci, for the counters of the
	// process inside.
	Cgrouper interface {
		// Cgroup returns the path of the container's cgroup below the mount
		// point (v2) or below each controller's mount point (v1), such as
		// "/tare/ID". The error wraps ErrUnsupported if it has none.
		Cgroup(ctx context.Context, c Container) (string, error)
	}

	// A Pauser freezes every process of a running container, and thaws them.
	Pauser interface {
		Pause(ctx context.Context, c Container) error
		Resume(ctx context.Context, c Container) error
	}

	// An Execer runs one more process in a running container, as the container's
	// user and in its environment, and returns when that process has exited and
	// all its output has been written. Stdout and stderr may be nil to discard, or
	// the same, as for Attach. A non-zero status is an Exit, not an error. If ctx
	// ends first, the container can still be removed.
	Execer interface {
		Exec(ctx context.Context, c Container, argv []string, stdout, stderr io.Writer) (Exit, error)
	}

	// A Signaler sends a signal to the first process of a running container,
	// and returns once the engine says that it was sent.
	Signaler interface {
		Signal(ctx context.Context, c Container, s syscall.Signal) error
	}

	// A Stopper has a stop of its own: it sends SIGTERM to the first process, and
	// SIGKILL after grace, in whole seconds. Stop returns when the engine says that
	// the container has stopped; Wait says how its process ended. For an engine
	// without it, a Signaler's SIGTERM followed by Wait does the same.
	Stopper interface {
		Stop(ctx context.Context, c Container, grace time.Duration) error
	}

	// A Checkpointer writes the state of a running container to disk and ends
	// its processes, and restores it from there.
	Checkpointer interface {
		// Checkpointable returns why it is not possible here; the error wraps
		// ErrUnsupported. It changes nothing and is never timed.
		Checkpointable(ctx context.Context) error
		Checkpoint(ctx context.Context, c Container) error
		Restore(ctx context.Context, c Container) error
	}

	// A Verifier checks that a container is gone after the engine says so.
	Verifier interface {
		// Gone is called after the first Remove of a container and never timed. If it
		// returns an error, that Remove has failed, and another Remove cleans up.
		Gone(ctx context.Context, c Container) error
	}

	// An Adopter has containers in its server's hands that another client of the server has made, such as the kubelet.
	Adopter interface {
		// Stored loads the image that a reference names, as Prepare does, and returns the server's name for it, and the
		// digest of its configuration.
		Stored(ctx context.Context, ref string) (name, digest string, err error)
		// Adopt returns a container that was started, by the server's ID. data is the directory of the host that DataDir
		// is; empty = it is none. Remove releases what the engine itself has of it: who has made the container removes it.
		Adopt(ctx context.Context, id string, spec Spec, data string) (Container, error)
	}

	// A Settler has options whose meaning depends on where and when tare runs, such as a file that the environment names.
	Settler interface {
		// Settled are the same options as another process needs them; empty values are left open.
		Settled() map[string]string
	}

	// A Sandboxer makes a container in two separate steps: the sandbox (pod), and
	// the container in it. Create of such an engine makes both, and Remove of its
	// containers removes both.
	Sandboxer interface {
		Sandbox(ctx context.Context, spec Spec) (Sandbox, error)
	}

	// A ProcessReporter says which processes of this host belong to the engine and to
	// its containers, so that usage is attributed by process tree.
	ProcessReporter interface {
		// Daemons returns the IDs of the engine's long-lived processes, if it has
		// any. Their children count as theirs too.
		Daemons(ctx context.Context) ([]int, error)
		// Pid returns the ID of a started container's first process. Processes
		// between it and the first process of the host (a shim, a monitor) serve
		// this container alone. For a container that has exited, it returns the ID
		// that it had, or an error that is not ErrUnsupported.
		Pid(ctx context.Context, c Container) (int, error)
	}

	// A DiskReporter says what of this host's disks the engine uses.
	DiskReporter interface {
		// Disk changes nothing. The error wraps ErrUnsupported if the engine keeps what it
		// has where tare does not see it.
		Disk(ctx context.Context) (EngineDisk, error)
	}

	// An Addresser says how a client reaches a port of a running container.
	Addresser interface {
		// Address returns the address to which a client on this host connects for
		// port p of Spec.Ports, in the way that Spec.Reach names. The error wraps
		// ErrUnsupported if no client outside can reach it. For a container that has
		// exited, it returns the address that it had, or an error that is not
		// ErrUnsupported.
		Address(ctx context.Context, c Container, p Port) (netip.AddrPort, error)
		// Path returns what a packet to that address passes, read from the kernel,
		// such as "loopback", "docker-proxy", "bridge docker0", "veth".
		Path(ctx context.Context, c Container, p Port) ([]string, error)
	}

	// An ImageLoader loads an image into the store that the user's own tools see,
	// where it stays until the user removes it.
	ImageLoader interface {
		// LoadImage reads an archive, as "docker save" writes it, of one image with a
		// full name such as "tare.local/nginx:latest". Afterwards the name means that
		// image. Digest is that of the image's configuration: if the store then has
		// another one, that is an error.
		LoadImage(ctx context.Context, archive io.Reader, name, digest string) error
	}

	// A DataKeeper keeps the data of its containers in another directory than
	// DataDir: a plain process sees the host's files as they are.
	DataKeeper interface {
		// DataDir returns the data directory of the next container of this spec.
		// It exists once Create has returned.
		DataDir(spec Spec) (string, error)
	}

	// A DataHolder keeps data that outlive containers. Containers of one run with the
	// same Spec.DataName, Storage and Data share DataDir, which is empty at first. Close
	// of the engine removes all of it. A name has at most 32 lower-case letters, digits
	// and "-", and begins with a letter.
	DataHolder interface {
		// RemoveData removes the data that Spec names. No container may use them any
		// more. It may be called twice.
		RemoveData(ctx context.Context, spec Spec) error
	}

	// An ImageFinder has a store of its own, in which images have names.
	ImageFinder interface {
		// FindImage returns an error that wraps ErrNoImage if the store has no image of
		// this name. Any other error means "could not find out". It fetches nothing and
		// changes nothing.
		FindImage(ctx context.Context, name string) error
	}

	// An ImageSaver exports images of the engine's own store.
	ImageSaver interface {
		// SaveImage writes the image that the engine knows by this name as an archive:
		// in the format of "docker save", or as an OCI image layout. It fetches nothing
		// and changes nothing. After an error, the output is worthless.
		SaveImage(ctx context.Context, name string, w io.Writer) error
	}

	// A Puller fetches images from a registry into its own store.
	Puller interface {
		// Pull fetches spec.Image, which is "127.0.0.1:PORT/NAME:TAG" with a name that
		// PullRepository made, from a registry on loopback that speaks HTTP without TLS.
		// It returns once the engine says that it can make containers of spec: the image
		// is unpacked as far as this engine does that before it makes a container. If Pull
		// fails, or ctx ends before it returns, no image of that name is left.
		Pull(ctx context.Context, spec Spec) error
		// Evict removes an image that Pull has fetched, with all its unpacked files, and
		// nothing else. It is no error if the image is gone. Like Remove of a container,
		// it works after the trial's context has ended.
		Evict(ctx context.Context, spec Spec) error
	}

	// A Restarter restarts the engine's daemon, for experiments that ask for it,
	// and returns when the daemon answers again.
	Restarter interface {
		Restart(ctx context.Context) error
	}

	// A Cleaner finds and removes the leftovers of dead runs in this engine:
	// exactly the objects that carry the ID of such a run.
	Cleaner interface {
		// Leftovers lists the objects of every run for which dead reports
		// true. It changes nothing.
		Leftovers(ctx context.Context, dead func(run string) bool) ([]Leftover, error)
		// RemoveLeftover removes one. It is no error if it is gone.
		RemoveLeftover(ctx context.Context, l Leftover) error
	}
)

// EngineDisk is what an engine uses of the host's disks.
type EngineDisk struct {
	// Dirs are the directories of this host in which the engine keeps what it has: images,
	// containers, volumes, its own state. None is below another.
	Dirs []string
	// Images are the bytes of all images by the engine's own account, with layers that several
	// share counted once; negative = the engine does not tell.
	Images int64
}

// A Sandbox holds the containers of a Sandboxer, such as a pod.
type Sandbox interface {
	ID() string
	// Create makes the container of the sandbox. The container's Remove leaves
	// the sandbox.
	Create(ctx context.Context) (Container, error)
	// Stop ends the processes in the sandbox and releases its network.
	Stop(ctx context.Context) error
	// Remove removes the sandbox with everything in it, whatever its state.
	// It may be called twice, and works after the trial's context has ended.
	Remove(ctx context.Context) error
}

// A Leftover is one object that a dead run left on the host.
type Leftover struct {
	Run    string `json:"run"`
	Engine string `json:"engine"`
	// Kind is "container", "sandbox", "image", "snapshot", "process", "mount", "cgroup",
	// "directory", "data", "network", "volume", "device" or "cache".
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

// Dispose removes a container when nothing is timed. It tries once more if the first
// call fails, or if the engine removed less than it says.
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

// Own returns a container as the driver's own type. engine is the name of the driver's instance.
// For a container of another driver, the error wraps ErrUnsupported.
func Own[T Container](c Container, engine string) (T, error) {
	own, ok := c.(T)
	if !ok {
		return own, fmt.Errorf("%w: container %s does not belong to %s", ErrUnsupported, c.ID(), engine)
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
