package floor_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/cgroup"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/floor"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

func open(_ testing.TB, s enginetest.Site) bench.Engine {
	return floor.New(floor.Config{Name: "floor", Run: s.Run, Dir: s.Dir, Images: s.Images})
}

// require skips or fails where the kernel does not let this user isolate.
func require(t testing.TB) {
	t.Helper()
	_, err := open(t, enginetest.NewSite(t, nil)).Probe(t.Context())
	enginetest.Require(t, "floor", err)
}

func TestConformance(t *testing.T) {
	require(t)
	enginetest.Run(t, enginetest.Options{Open: open, Unsupported: unsupported(t), Images: images(t)})
}

// unsupported depends on whether this user may make cgroups.
func unsupported(t *testing.T) []enginetest.Feature {
	t.Helper()
	none := []enginetest.Feature{enginetest.NetworkBridge}
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

// agentVariable names the file of an agent that was built before.
const agentVariable = "TARE_TEST_AGENT"

// images is nil, which means the usual, unless this is TestOrdinaryUser's child.
func images(t *testing.T) *image.Library {
	t.Helper()
	file := os.Getenv(agentVariable)
	if file == "" {
		return nil
	}
	agent, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return image.NewLibrary(t.TempDir(), image.WithAgent(agent))
}

// TestOrdinaryUser runs the suite again as nobody.
func TestOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this is an ordinary user: TestConformance is what this test would run")
	}
	require(t)
	const nobody = 65534
	dir, err := os.MkdirTemp("", "tare-floor-") // all of whose parents others may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a leftover in the temporary directory
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	program, agent := filepath.Join(dir, "floor.test"), filepath.Join(dir, "agent")
	copyFile(t, os.Args[0], program)
	if err := os.WriteFile(agent, imagetest.Agent(t), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestConformance$", "-test.v")
	cmd.Env = []string{"TMPDIR=" + dir, agentVariable + "=" + agent, "TARE_TEST_ENGINES=" + os.Getenv("TARE_TEST_ENGINES")}
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as user %d: %v\n%s", nobody, err, out)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	r, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // only read
	w, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, r); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
