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
	ReachSocket     Feature = "reach socket"
	ShmSize         Feature = "size of /dev/shm"
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

// having returns the test of a capability, for engines that have it.
func having[E any](run func(t *testing.T, s *suite, e E)) func(*testing.T, *suite) {
	return func(t *testing.T, s *suite) {
		if e, ok := bench.As[E](s.engine); ok {
			run(t, s, e)
		}
	}
}

// with returns the test of a feature that a Spec asks for. An engine that lacks it must refuse that.
func with(f Feature, ask func(*bench.Spec), run func(*testing.T, *suite, bench.Spec)) func(*testing.T, *suite) {
	return func(t *testing.T, s *suite) {
		spec := s.spec("hold")
		ask(&spec)
		if !s.refused(t, f, spec) {
			run(t, s, spec)
		}
	}
}

// noError ends the test if there is an error.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tests is the suite, in order. A rule that is in neither list is not checked.
func tests() []test { return append(settingTests(), operationTests()...) }

// settingTests lists the tests of what a container gets.
func settingTests() []test {
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
		{"tmpfs mount", tmpfsMount, true},
		{"network none", with(NetworkNone, func(x *bench.Spec) { x.Network = "none" }, networkNone), true},
		{"network host", with(NetworkHost, func(x *bench.Spec) { x.Network = "host" }, networkHost), true},
		{"network bridge", with(NetworkBridge, func(x *bench.Spec) { x.Network = "bridge" }, networkBridge), true},
		{"reach", reaches, true},

		{"no limits", noLimits, true},
		{"cpu quota", with(CPUQuota, func(x *bench.Spec) { x.Limits.CPUs = 0.5 }, cpuQuota), true},
		{"cpu set", cpuSet, true},
		{"memory limit", with(MemoryLimit, func(x *bench.Spec) { x.Limits.Memory = 64 << 20 }, memoryLimit), true},
		{"pids limit", with(PidsLimit, func(x *bench.Spec) { x.Limits.Pids = 32 }, pidsLimit), true},

		{"read-only root", with(ReadOnlyRoot, func(x *bench.Spec) { x.Security.ReadOnly = true }, readOnlyRoot), true},
		{"no new privileges", with(NoNewPrivileges,
			func(x *bench.Spec) { x.Security.NoNewPrivileges = true }, noNewPrivileges), true},
		{"seccomp unconfined", with(Unconfined,
			func(x *bench.Spec) { x.Security.Seccomp = "unconfined" }, unconfined), true},
		{"seccomp docker", with(SeccompDocker,
			func(x *bench.Spec) { x.Security.Seccomp = bench.SeccompDocker }, seccompDocker), true},
		{"user namespace", with(UserNS, func(x *bench.Spec) { x.Security.UserNS = true }, userNamespace), true},
		{"privileged", with(Privileged, func(x *bench.Spec) { x.Security.Privileged = true }, privileged), true},
		{"size of /dev/shm", with(ShmSize, func(x *bench.Spec) { x.Shm = 9<<20 + 1 }, shmSize), true},
		{"size of /dev/shm, the default", shmDefault, true},
		{"first process", processFacts, true},
		{"reach by a socket", reachesSocket, true},
		{"fresh layer", freshLayer, true},
		{"storage", storageOf, true},
		{"storage for a foreign image", foreignData, true},
		{"image digest", imageDigest, true},
		{"host program", hostProgram, true},
		{"others kept out", keepsOthersOut, true},
		{"any umask", anyUmask, true},
		{"any image", anyImage, true},
		{"wrong image", wrongImage, true},
		{"find image", having(findsImage), true},
		{"save image", having(savesImage), true},
		{"pull and evict", having(pulls), true},
		{"projects", having(projects), true},
		{"cgroup", having(cgroupPath), true},
	}
}

// operationTests lists the tests of operations, and of how containers end.
func operationTests() []test {
	return []test{
		{"pause and resume", having(pauses), false},
		{"exec", having(execs), false},
		{"signal", having(signals), false},
		{"stop", having(stops), false},
		{"checkpoint and restore", having(checkpoints), true},
		{"sandbox", having(sandboxes), true},
		{"daemons and first process", having(reportsProcesses), false},
		{"disk in use", having(reportsDisk), true},

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
	closes(t, e)
}

// closes closes the engine after the test.
func closes(t testing.TB, e bench.Engine) {
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// Create makes a container, and removes it after the test.
func Create(t testing.TB, e bench.Engine, spec bench.Spec) bench.Container {
	t.Helper()
	noError(t, e.Prepare(t.Context(), spec))
	c, err := e.Create(t.Context(), spec)
	noError(t, err)
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
		noError(t, os.Chmod(d, 0o711))
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
	noError(t, os.MkdirAll(dir, 0o755))
	return Env{Run: run, Dir: dir, Images: images}
}
