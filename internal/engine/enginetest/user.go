package enginetest

import (
	"errors"
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
	noError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a leftover in the temporary directory
	noError(t, os.Chown(dir, nobody, nobody))
	program, agent := filepath.Join(dir, "test"), filepath.Join(dir, "agent")
	text, err := os.ReadFile(os.Args[0])
	noError(t, errors.Join(err, os.WriteFile(program, text, 0o755)))
	noError(t, os.WriteFile(agent, imagetest.Agent(t), 0o644))
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
