package native_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/native"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

var (
	_ bench.Engine          = (*native.Engine)(nil)
	_ bench.Cleaner         = (*native.Engine)(nil)
	_ bench.Pauser          = (*native.Engine)(nil)
	_ bench.Execer          = (*native.Engine)(nil)
	_ bench.Signaler        = (*native.Engine)(nil)
	_ bench.ProcessReporter = (*native.Engine)(nil)
	_ bench.Addresser       = (*native.Engine)(nil)
	_ bench.DataKeeper      = (*native.Engine)(nil)
)

func open(_ testing.TB, s enginetest.Env) bench.Engine {
	return native.New(native.Config{Name: "native", Run: s.Run, Dir: s.Dir, Images: s.Images})
}

func TestConformance(t *testing.T) {
	enginetest.Run(t, enginetest.Options{
		Open: open,
		Unsupported: append(enginetest.OwnNetworks(),
			enginetest.NetworkNone, enginetest.BindMount, enginetest.TmpfsMount,
			enginetest.CPUQuota, enginetest.CPUSet, enginetest.MemoryLimit, enginetest.PidsLimit,
			enginetest.ReadOnlyRoot, enginetest.NoNewPrivileges, enginetest.SeccompDocker,
			enginetest.UserNS, enginetest.Privileged,
			enginetest.Layer, enginetest.AnyImage, enginetest.ForeignData, enginetest.StorageLayer,
			enginetest.StorageVolume, enginetest.StorageTmpfs, enginetest.ShmSize,
		),
	})
}

// TestOrdinaryUser runs the suite again as nobody.
func TestOrdinaryUser(t *testing.T) { enginetest.AsOrdinaryUser(t, "TestConformance") }

// run runs a program to its end and returns what it printed.
func run(t *testing.T, e bench.Engine, argv ...string) (string, bench.Exit, bench.Applied) {
	t.Helper()
	ctx := t.Context()
	c, err := e.Create(ctx, bench.Spec{Argv: argv})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	applied, err := c.Inspect(ctx)
	if err := errors.Join(err, c.Attach(ctx, &out, nil), c.Start(ctx)); err != nil {
		t.Fatal(err)
	}
	exit, err := c.Wait(ctx)
	if err := errors.Join(err, c.Remove(ctx)); err != nil {
		t.Fatal(err)
	}
	return out.String(), exit, applied
}

func TestHostProgram(t *testing.T) {
	e := open(t, enginetest.NewEnv(t, imagetest.Library(t)))
	for _, program := range []string{"sh", "/bin/sh"} {
		out, exit, applied := run(t, e, program, "-c", "echo out; exit 7")
		if out != "out\n" || exit != (bench.Exit{Code: 7}) || applied.Image != "" {
			t.Errorf("%s: %q, %v, image %q; want the host's program", program, out, exit, applied.Image)
		}
	}
}

// TestEscape starts programs that leave something behind that holds their
// output open.
func TestEscape(t *testing.T) {
	s := enginetest.NewEnv(t, imagetest.Library(t))
	e := open(t, s).(*native.Engine)
	left := func() int {
		t.Helper()
		l, err := e.Leftovers(t.Context(), func(run string) bool { return run == s.Run })
		if err != nil {
			t.Fatal(err)
		}
		return len(l)
	}
	if out, _, _ := run(t, e, "sh", "-c", "sleep 1000 & echo done"); out != "done\n" || left() != 0 {
		t.Errorf("printed %q and left %d processes, want the group killed", out, left())
	}
	const escape = `setsid sh -c '>"$0"; exec sleep 1000' "$0" & until [ -e "$0" ]; do sleep 0.01; done; echo done`
	if out, _, _ := run(t, e, "sh", "-c", escape, filepath.Join(t.TempDir(), "escaped")); out != "done\n" || left() != 1 {
		t.Errorf("printed %q and left %d processes, want the one with a session of its own", out, left())
	}
	if err := e.Close(t.Context()); err != nil || left() != 0 {
		t.Errorf("Close = %v and leaves %d processes, want none", err, left())
	}
}

func TestRefused(t *testing.T) {
	e := open(t, enginetest.NewEnv(t, imagetest.Library(t)))
	for name, spec := range map[string]bench.Spec{
		"foreign image": {Image: "debian:12", Argv: []string{"true"}},
		"another port":  {Ports: []bench.Port{{Container: 80, Host: 81, Protocol: "tcp"}}},
		"published":     {Ports: []bench.Port{{Container: 80, Protocol: "tcp"}}, Reach: bench.ReachPublished},
		"storage":       {Storage: "volume"},
	} {
		if _, err := e.Create(t.Context(), spec); !errors.Is(err, bench.ErrUnsupported) {
			t.Errorf("%s: Create = %v, want bench.ErrUnsupported", name, err)
		}
	}
	if _, err := e.Create(t.Context(),
		bench.Spec{Image: image.Agent, Argv: []string{"/bin/sh"}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a program that the agent's image lacks: Create = %v, want fs.ErrNotExist", err)
	}
}

// RemoveLeftover kills as root, so it must not take any word for a process.
func TestRemoveLeftoverRefuses(t *testing.T) {
	s := enginetest.NewEnv(t, nil)
	e := open(t, s).(*native.Engine)
	for _, id := range []string{"", "0@1", "-1@1", "1@1", "x@1"} {
		if err := e.RemoveLeftover(t.Context(), bench.Leftover{Run: s.Run, ID: id}); err == nil {
			t.Errorf("RemoveLeftover(%q) succeeds", id)
		}
	}
	// This very process exists and is not marked: it must live on.
	if err := e.RemoveLeftover(t.Context(), bench.Leftover{Run: s.Run, ID: fmt.Sprintf("%d@1", os.Getpid())}); err != nil {
		t.Errorf("RemoveLeftover of a process that is gone: %v", err)
	}
}

// A user could set anything in an environment.
func TestLeftoverOfNoRun(t *testing.T) {
	s := enginetest.NewEnv(t, imagetest.Library(t))
	cmd := exec.Command("sleep", "1000")
	cmd.Env = []string{"TARE_RUN=../" + s.Run}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	left, err := open(t, s).(*native.Engine).Leftovers(t.Context(),
		func(run string) bool { return strings.HasSuffix(run, s.Run) })
	if err != nil || len(left) > 0 {
		t.Errorf("Leftovers = %v, %v; want none", left, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // killed
}

// A plain process may change its user, as servers do: it still gets at its data, whatever
// the umask of who runs tare.
func TestDataForAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	env := enginetest.NewEnv(t, imagetest.Library(t))
	if err := os.Chmod(env.Dir, 0o711); err != nil { // as that of a run
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(env.Dir), 0o711); err != nil {
		t.Fatal(err)
	}
	e := open(t, env)
	enginetest.Use(t, e)
	spec := bench.Spec{Storage: "bind"}
	k, _ := bench.As[bench.DataKeeper](e)
	dir, err := k.DataDir(spec)
	if err != nil {
		t.Fatal(err)
	}
	spec.Argv = []string{"/tare-agent", "write", filepath.Join(dir, "own"), "text"}
	enginetest.Create(t, e, spec)
	cmd := exec.CommandContext(t.Context(), "touch", filepath.Join(dir, "file"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("another user writes to the data: %v: %s", err, out)
	}
}
