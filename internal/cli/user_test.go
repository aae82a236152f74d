package cli_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// nobody is an ordinary user.
const nobody = 65534

// asNobody makes a command that the ordinary user runs, with a copy of tare that
// this user may execute. The place is then that of this user.
func (p *testEnv) asNobody(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user; the other tests already run without privileges")
	}
	program := filepath.Join(p.dir, "bin", "tare")
	if _, err := os.Stat(program); err != nil {
		copyProgram(t, program)
	}
	if err := os.Chmod(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(p.dir, "home")
	cmd := exec.Command(program, args...)
	cmd.Dir = "/"
	cmd.Env = []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "GORACE=" + os.Getenv("GORACE"),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	p.store = filepath.Join(home, ".local", "share", "tare", "tare.db")
	p.state = filepath.Join(home, ".local", "state", "tare")
	return cmd
}

func copyProgram(t *testing.T, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	built, err := exec.LookPath("tare")
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(built)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }() // only read
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(f, from); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// Without privileges, native and floor work where the kernel lets users have
// namespaces; store and state lie below the home.
func TestOrdinaryUser(t *testing.T) {
	p := newTestEnv(t)
	home := filepath.Join(p.dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Skipf("only root can become another user: %v", err)
	}
	engines := []string{"native"}
	if result := begin(t, p.asNobody(t, "doctor")).end(t); strings.Contains(result.stdout, "✓ floor") {
		engines = append(engines, "floor")
	}
	if result := begin(t, p.asNobody(t, small(engines)...)).end(t); result.code != 0 {
		t.Errorf("exit code %d\n%s", result.code, result.stderr)
	}
	for _, s := range p.last(t).Samples {
		if s.Outcome != bench.OK {
			t.Errorf("trial %d: %s: %s", s.Trial.Seq, s.Outcome, s.Reason)
		}
	}
	p.nothingLeft(t)
}

// A home that belongs to somebody else: nothing is begun, and what to do is said.
// What only reads finds no runs there.
func TestHomeOfSomebodyElse(t *testing.T) {
	p := newTestEnv(t)
	if err := os.Mkdir(filepath.Join(p.dir, "home"), 0o755); err != nil {
		t.Fatal(err)
	}
	result := begin(t, p.asNobody(t, small([]string{"native"})...)).end(t)
	if result.code != 1 || !strings.Contains(result.stderr, "permission denied") ||
		!strings.Contains(result.stderr, "--store FILE") {
		t.Errorf("exit code %d, want 1, the reason and a hint:\n%s", result.code, result.stderr)
	}
	if result := begin(t, p.asNobody(t, "list")).end(t); result.code != 0 ||
		!strings.Contains(result.stderr, "no runs yet") {
		t.Errorf("tare list: exit code %d, want 0 and no runs:\n%s", result.code, result.stderr)
	}
}
