package enginetest

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tare-bench/tare/internal/image/imagetest"
)

// AsOrdinaryUser runs the named test of the same package once more, as the
// user nobody. If the tests already run as an ordinary user, it does nothing, because the named
// test itself covers that.
func AsOrdinaryUser(t *testing.T, test string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("", "tare-nobody-") // t.TempDir has a parent that others may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a leftover in the temporary directory
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	program, agent := filepath.Join(dir, "test"), filepath.Join(dir, "agent")
	copyProgram(t, os.Args[0], program)
	if err := os.WriteFile(agent, imagetest.Agent(t), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+test+"$", "-test.v")
	cmd.Dir = dir
	cmd.Env = []string{
		"TMPDIR=" + dir, "PATH=" + os.Getenv("PATH"), imagetest.AgentVariable + "=" + agent,
		enginesVariable + "=" + os.Getenv(enginesVariable),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s as user %d: %v\n%s", test, nobody, err, out)
	}
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	r, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }() // only read
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
