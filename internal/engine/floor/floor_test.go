package floor_test

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/floor"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
)

var (
	_ bench.Engine          = (*floor.Engine)(nil)
	_ bench.Cgrouper        = (*floor.Engine)(nil)
	_ bench.Cleaner         = (*floor.Engine)(nil)
	_ bench.Pauser          = (*floor.Engine)(nil)
	_ bench.Execer          = (*floor.Engine)(nil)
	_ bench.Signaler        = (*floor.Engine)(nil)
	_ bench.ProcessReporter = (*floor.Engine)(nil)
	_ bench.Addresser       = (*floor.Engine)(nil)
)

func open(_ testing.TB, s enginetest.Env) bench.Engine {
	return floor.New(floor.Config{Name: "floor", Run: s.Run, Dir: s.Dir, Images: s.Images})
}

// opened opens an engine, and closes it when the test ends.
func opened(t *testing.T, s enginetest.Env) *floor.Engine {
	t.Helper()
	e := open(t, s).(*floor.Engine)
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return e
}

// require skips or fails where the kernel does not let this user isolate.
func require(t testing.TB) {
	t.Helper()
	_, err := open(t, enginetest.NewEnv(t, nil)).Probe(t.Context())
	enginetest.Require(t, "floor", err)
}

func TestConformance(t *testing.T) {
	require(t)
	enginetest.Run(t, enginetest.Options{Open: open, Unsupported: unsupported(t)})
}

// unsupported depends on whether this user may make cgroups.
func unsupported(t *testing.T) []enginetest.Feature {
	t.Helper()
	none := append(enginetest.BareNetworks(), enginetest.StorageVolume, enginetest.SeccompDocker, enginetest.ForeignData)
	h, err := cgroup.Detect("/")
	if err == nil {
		err = h.Writable()
	}
	if errors.Is(err, cgroup.ErrNone) || errors.Is(err, cgroup.ErrDelegation) {
		none = append(none, enginetest.CPUQuota, enginetest.CPUSet, enginetest.MemoryLimit, enginetest.PidsLimit)
	} else if err != nil {
		t.Fatal(err)
	}
	return none
}

// TestOrdinaryUser runs the suite again as nobody.
func TestOrdinaryUser(t *testing.T) {
	require(t)
	enginetest.AsOrdinaryUser(t, "TestConformance")
}

// TestConformanceCopied runs the suite with copies of the image in place of
// overlays.
func TestConformanceCopied(t *testing.T) {
	require(t)
	enginetest.Run(t, enginetest.Options{
		Open: func(t testing.TB, s enginetest.Env) bench.Engine {
			e := open(t, s).(*floor.Engine)
			e.CopyImages()
			return e
		},
		Unsupported: unsupported(t),
	})
}

// TestLinkInImage mounts below a link that an image has in place of a
// directory. It must be followed inside, and not on the host.
func TestLinkInImage(t *testing.T) {
	require(t)
	s := enginetest.NewEnv(t, imagetest.Library(t))
	img, err := s.Images.Resolve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	root, err := img.Rootfs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	host := t.TempDir()
	// It leads somewhere inside too, where the mount is to be.
	if err := os.MkdirAll(filepath.Join(root, host), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(host, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	c := enginetest.Create(t, opened(t, s), bench.Spec{Mounts: []bench.Mount{{Type: "tmpfs", Target: "/link/deep"}}})
	if err := c.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(host, "deep")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a mount's target was made on the host: %v", err)
	}
}

// The root of a container is open to all users inside, whatever the umask of who
// runs tare.
func TestAnyUmask(t *testing.T) {
	require(t)
	s := enginetest.NewEnv(t, imagetest.Library(t))
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	enginetest.Create(t, opened(t, s), bench.Spec{})
	layers, err := filepath.Glob(filepath.Join(s.Dir, "*", "upper"))
	if err != nil || len(layers) != 1 {
		t.Fatalf("layers: %q, %v; want one", layers, err)
	}
	if info, err := os.Stat(layers[0]); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the root of a container: %v, %v; want mode 0755", info.Mode(), err)
	}
}

// TestOddDirectory works where the options of an overlay need escapes.
func TestOddDirectory(t *testing.T) {
	require(t)
	s := enginetest.NewEnv(t, imagetest.Library(t))
	s.Dir = filepath.Join(t.TempDir(), `a,b:c\d e[*]`, "runs", s.Run)
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	e := opened(t, s)
	c := enginetest.Create(t, e, bench.Spec{})
	left, err := e.Leftovers(t.Context(), func(run string) bool { return run == s.Run })
	if err != nil || len(left) != 1 || left[0].ID != c.ID() {
		t.Errorf("Leftovers = %v, %v; want %s", left, err, c.ID())
	}
}

// TestErrors looks at what a user reads when the kernel refuses.
func TestErrors(t *testing.T) {
	require(t)
	e := opened(t, enginetest.NewEnv(t, imagetest.Library(t)))
	for _, test := range []struct {
		name string
		spec bench.Spec
		want string
	}{
		{"directory", bench.Spec{Dir: "/no/such"}, "floor: change directory: chdir /no/such: no such file or directory"},
		{"source", bench.Spec{Mounts: []bench.Mount{{Type: "bind", Source: "/no/such", Target: "/x"}}}, "floor: mount: open /no/such: no such file or directory"},
		{"relative", bench.Spec{Mounts: []bench.Mount{{Type: "tmpfs", Target: "x"}}}, `floor: not supported here: mount of "" at "x": use absolute paths`},
		{"network", bench.Spec{Network: "macvlan"}, `floor: not supported here: network "macvlan": use none, host or bridge`},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := e.Create(t.Context(), test.spec)
			if err == nil {
				t.Fatal(errors.Join(errors.New("Create succeeds"), c.Remove(t.Context())))
			}
			if got := err.Error(); !strings.HasPrefix(got, test.want) {
				t.Errorf("Create = %q, want it to begin with %q", got, test.want)
			}
		})
	}
}

func TestMark(t *testing.T) {
	const run, id = "20260102-abc", "floor-0123abcd-17"
	if gotRun, gotID, ok := floor.Unmark(floor.Mark(run, id)); gotRun != run || gotID != id || !ok {
		t.Errorf("Unmark(Mark(%q, %q)) = %q, %q, %v", run, id, gotRun, gotID, ok)
	}
	for _, name := range []string{
		"", "tmpfs", "tare:", "tare:run", "tare::floor-0123abcd-1", "tare:run:../..", "tare:../x:floor-0123abcd-1",
		"tare:run:floor-0123abcd-1/..",
	} {
		if run, id, ok := floor.Unmark(name); ok {
			t.Errorf("Unmark(%q) = %q, %q, want nothing", name, run, id)
		}
	}
}

// RemoveLeftover removes trees as root, so it must not take any word for an ID.
func TestRemoveLeftoverRefuses(t *testing.T) {
	s := enginetest.NewEnv(t, nil)
	e := opened(t, s)
	for _, l := range []bench.Leftover{
		{Run: s.Run, Kind: "container", ID: ".."},
		{Run: s.Run, Kind: "container", ID: ""},
		{Run: s.Run, Kind: "container", ID: "floor-0123abcd-1/../.."},
		{Run: "..", Kind: "container", ID: "floor-0123abcd-1"},
		{Run: s.Run, Kind: "cgroup", ID: "/"},
		{Run: s.Run, Kind: "directory", ID: s.Dir},
	} {
		if err := e.RemoveLeftover(t.Context(), l); err == nil {
			t.Errorf("RemoveLeftover(%+v) succeeds", l)
		}
	}
}

// killedVariable tells TestKilledChild where to leave something behind.
const killedVariable = "TARE_TEST_KILLED"

// TestKilled kills a process that has one container running and one created,
// and cleans up after it.
func TestKilled(t *testing.T) {
	require(t)
	s := enginetest.NewEnv(t, nil)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledChild$")
	child.Env = append(os.Environ(), killedVariable+"="+s.Dir, "TMPDIR="+t.TempDir()) // it cannot tidy up
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "left\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	if err := errors.Join(child.Process.Kill(), ignoreExit(child.Wait())); err != nil {
		t.Fatal(err)
	}

	e := opened(t, s)
	dead := func(run string) bool { return run == s.Run }
	left, err := e.Leftovers(t.Context(), dead)
	if err != nil || len(left) != 2 {
		t.Errorf("Leftovers = %v, %v; want two containers", left, err)
	}
	for _, l := range left {
		if err := e.RemoveLeftover(t.Context(), l); err != nil {
			t.Errorf("RemoveLeftover(%+v): %v", l, err)
		}
	}
	if left, err := e.Leftovers(t.Context(), dead); err != nil || len(left) != 0 {
		t.Errorf("Leftovers = %v, %v after they were removed", left, err)
	}
	if entries, err := os.ReadDir(s.Dir); err != nil || len(entries) != 0 {
		t.Errorf("left in the run's directory: %v, %v", entries, err)
	}
}

func ignoreExit(err error) error {
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return nil
	}
	return err
}

// TestKilledChild is not a test but the child of TestKilled.
func TestKilledChild(t *testing.T) {
	dir := os.Getenv(killedVariable)
	if dir == "" {
		return
	}
	s := enginetest.Env{Run: filepath.Base(dir), Dir: dir, Images: imagetest.Library(t)}
	e := open(t, s)
	spec := bench.Spec{Argv: []string{agent.Path, "stubborn"}}
	enginetest.Create(t, e, spec)
	if err := enginetest.Create(t, e, spec).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stdout.WriteString("left\n"); err != nil {
		t.Fatal(err)
	}
	select {}
}

// TestEmptyGroup leaves what a run leaves that is killed between two containers.
func TestEmptyGroup(t *testing.T) {
	require(t)
	s := enginetest.NewEnv(t, imagetest.Library(t))
	c := enginetest.Create(t, open(t, s), bench.Spec{})
	e := opened(t, s)
	if _, err := e.Cgroup(t.Context(), c); errors.Is(err, bench.ErrUnsupported) {
		return // there is none to leave
	}
	if err := c.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	dead := func(run string) bool { return run == s.Run }
	left, err := e.Leftovers(t.Context(), dead)
	if err != nil || len(left) != 1 || left[0].Kind != "cgroup" {
		t.Fatalf("Leftovers = %v, %v; want the run's cgroup", left, err)
	}
	if err := e.RemoveLeftover(t.Context(), left[0]); err != nil {
		t.Error(err)
	}
	if left, err := e.Leftovers(t.Context(), dead); err != nil || len(left) != 0 {
		t.Errorf("Leftovers = %v, %v after it was removed", left, err)
	}
}

// TestOOM wants the death of a program that is too large to be told from
// another one's.
func TestOOM(t *testing.T) {
	require(t)
	if slices.Contains(unsupported(t), enginetest.MemoryLimit) {
		return // nothing is limited
	}
	e := opened(t, enginetest.NewEnv(t, imagetest.Library(t)))
	c := enginetest.Create(t, e, bench.Spec{
		Argv:   []string{agent.Path, "alloc", "1000000000"},
		Limits: bench.Limits{Memory: 64 << 20},
	})
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if swap, err := os.ReadFile("/proc/swaps"); err != nil || strings.Count(string(swap), "\n") > 1 {
		return // it goes on there (or that is unknown)
	}
	if exit, err := c.Wait(t.Context()); err != nil || exit != (bench.Exit{Code: 137, Signal: 9, OOM: true}) {
		t.Errorf("Wait = %+v, %v; want it killed for want of memory", exit, err)
	}
}
