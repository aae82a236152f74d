// Package enginetest is the conformance suite that every engine passes, and a
// deterministic engine for the tests of everything else.
//
// A driver's whole test is its configuration: Run checks, against the real
// engine, each sentence of the contracts of bench.Engine and bench.Container.
// A driver declares the features that its engine lacks. The engine must then refuse them, and a
// declared lack that turns out to work is a failure too.
package enginetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
)

// A Feature is a capability that not every engine has.
type Feature string

// The features. A bench.Spec can ask for each of them, except for Layer and CompleteOutput.
const (
	NetworkNone     Feature = "network none"
	NetworkHost     Feature = "network host"
	NetworkBridge   Feature = "network bridge"
	NetworkMacvlan  Feature = "network macvlan"
	NetworkSlirp    Feature = "network slirp4netns"
	NetworkPasta    Feature = "network pasta"
	ReachBridge     Feature = "a bridge, from this host"
	ReachPublished  Feature = "reach published"
	ReachPeer       Feature = "reach peer"
	BindMount       Feature = "bind mount"
	TmpfsMount      Feature = "tmpfs mount"
	CPUQuota        Feature = "cpu quota"
	CPUSet          Feature = "cpu set"
	MemoryLimit     Feature = "memory limit"
	PidsLimit       Feature = "pids limit"
	ReadOnlyRoot    Feature = "read-only root"
	NoNewPrivileges Feature = "no new privileges"
	Unconfined      Feature = "seccomp unconfined"
	SeccompDocker   Feature = "seccomp docker"
	UserNS          Feature = "user namespace"
	Privileged      Feature = "privileged"
	StorageLayer    Feature = "storage layer"
	StorageVolume   Feature = "storage volume"
	StorageBind     Feature = "storage bind"
	StorageTmpfs    Feature = "storage tmpfs"
	// ForeignData is a data directory in a container of a foreign image, which has none itself, for
	// a user who is not root.
	ForeignData Feature = "data of a foreign image"
	// AnyImage is an image that tare has not made: in an OCI image layout, in an
	// archive, or in a registry.
	AnyImage Feature = "any image"
	// Layer: each container has a writable root of its own.
	Layer Feature = "writable layer"
	// CompleteOutput: all output arrives. Some servers are known to lose the end of long output
	// under load.
	CompleteOutput Feature = "complete output"
)

// Options describe the engine that Run checks.
type Options struct {
	// Open returns a new engine for the run that s describes. It is called
	// several times, also while other engines are open. Run closes the engine.
	Open func(t testing.TB, s Env) bench.Engine

	// Unsupported lists what the engine must refuse with bench.ErrUnsupported.
	Unsupported []Feature

	// Simulated engines make no process on this host. Properties that only the kernel knows are not
	// checked.
	Simulated bool

	// Remote engines make containers that are visible from here. They do not implement
	// bench.Cleaner: their server cleans up by itself.
	Remote bool

	// KnownFault, which may be nil, reports whether the error of a first Remove is a known fault of
	// the engine. The next Remove must succeed.
	KnownFault func(err error) bool

	// Sandboxed engines run the processes inside on a kernel of its own. What
	// the host sees of a container are processes that have the container's ID
	// in their command line; one of them represents the first process (the engine's Overseer says
	// which). Properties that only that kernel knows are read inside.
	Sandboxed bool
}

// An Env has the values for an engine's Config.
type Env struct {
	Run    string         // the run's ID, unique on this machine
	Dir    string         // private directory of the run, <state>/runs/<Run>; exists and is empty
	Images *image.Library // lies elsewhere and may be shared by several engines
}

// Run checks an engine. The subtests share one engine and run one after the
// other; afterwards the host must be as it was.
func Run(t *testing.T, o Options) {
	s := newSuite(t, o)
	for _, test := range tests() {
		if test.real && o.Simulated {
			continue
		}
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
	t.Run("close", s.close)
}

// A test is one subtest of the suite. Real ones examine the host.
type test struct {
	name string
	run  func(t *testing.T, s *suite)
	real bool
}

// tests is the suite, in order. A rule that is not in this list is not checked.
func tests() []test {
	return []test{
		{"probe changes nothing", probe, false},
		{"prepare twice", prepareTwice, false},
		{"exit status", exitStatus, false},
		{"program not found", programNotFound, false},
		{"death by signal", deathBySignal, true},

		{"output apart", outputApart, false},
		{"output complete", outputComplete, false},
		{"output to one writer", outputTogether, false},
		{"output discarded", outputDiscarded, false},
		{"output without end", outputWithoutEnd, false},
		{"output to a failing writer", outputFailing, false},

		{"arguments", arguments, true},
		{"environment", environment, true},
		{"working directory", workingDirectory, true},
		{"bind mount", bindMount, true},
		{"bind mount of a file", bindFile, true},
		{"bind mount read-only", bindReadOnly, true},
		{"tmpfs mount", tmpfsMount, true},
		{"network none", networkNone, true},
		{"network host", networkHost, true},
		{"network bridge", networkBridge, true},
		{"reach", reaches, true},

		{"no limits", noLimits, true},
		{"cpu quota", cpuQuota, true},
		{"cpu set", cpuSet, true},
		{"memory limit", memoryLimit, true},
		{"pids limit", pidsLimit, true},

		{"read-only root", readOnlyRoot, true},
		{"no new privileges", noNewPrivileges, true},
		{"seccomp unconfined", unconfined, true},
		{"seccomp docker", seccompDocker, true},
		{"user namespace", userNamespace, true},
		{"privileged", privileged, true},
		{"fresh layer", freshLayer, true},
		{"storage", storageOf, true},
		{"storage for a foreign image", foreignData, true},
		{"image digest", imageDigest, true},
		{"host program", hostProgram, true},
		{"others kept out", keepsOthersOut, true},
		{"any umask", anyUmask, true},
		{"any image", anyImage, true},
		{"wrong image", wrongImage, true},
		{"find image", findsImage, true},
		{"save image", savesImage, true},
		{"pull and evict", pulls, true},
		{"cgroup", cgroupPath, true},

		{"pause and resume", pauses, false},
		{"exec", execs, false},
		{"signal", signals, false},
		{"stop", stops, false},
		{"checkpoint and restore", checkpoints, true},
		{"sandbox", sandboxes, true},
		{"daemons and first process", reportsProcesses, false},

		{"concurrent containers", concurrent, false},
		{"remove in every state", removeInEveryState, false},
		{"remove while waiting", removeWhileWaiting, false},
		{"remove kills everything", removeKillsEverything, true},
		{"cancelled create", cancelledCreate, false},
		{"cancelled start", cancelledStart, false},
		{"cancelled wait", cancelledWait, false},
		{"concurrent waits", concurrentWaits, false},
		{"refused specs", refusedSpecs, false},
		{"leftovers", leftovers, true},
	}
}

// enginesVariable lists, with commas, the engines that must be present.
const enginesVariable = "TARE_TEST_ENGINES"

// Require ends the test unless the engine is to be tested here: TARE_TEST_ENGINES
// lists, with commas, those that must be present. If a listed one is missing
// the test fails; if one that is not listed is missing, it is skipped. Missing
// says why the engine cannot be used, or is nil.
func Require(t testing.TB, name string, missing error) {
	t.Helper()
	if missing == nil {
		return
	}
	if slices.Contains(strings.Split(os.Getenv(enginesVariable), ","), name) {
		t.Fatalf("%s is listed in TARE_TEST_ENGINES and cannot be used: %v", name, missing)
	}
	t.Skipf("%s is not here, nor in TARE_TEST_ENGINES: %v", name, missing)
}

// Use requires the engine (see Require), and closes it after the test.
func Use(t testing.TB, e bench.Engine) {
	t.Helper()
	_, err := e.Probe(t.Context())
	Require(t, e.Name(), err)
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// Create makes a container, and removes it after the test.
func Create(t testing.TB, e bench.Engine, spec bench.Spec) bench.Container {
	t.Helper()
	if err := e.Prepare(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	c, err := e.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := c.Remove(ctx); err != nil {
			t.Errorf("Remove: %v", err)
		}
	})
	return c
}

// NewEnv makes the directory of one run, in a temporary one.
func NewEnv(t testing.TB, images *image.Library) Env {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} { // as the place of runs: the process inside need not be root
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	return newSite(t, filepath.Join(dir, "runs"), images)
}

// newSite makes the directory of a run below runs, the directory of all runs.
func newSite(t testing.TB, runs string, images *image.Library) Env {
	t.Helper()
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails, since Go 1.24
	run := "test-" + hex.EncodeToString(b[:])
	dir := filepath.Join(runs, run)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return Env{Run: run, Dir: dir, Images: images}
}
