package syscalls_test

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/syscalls"
)

// open counts, or ends the test where this is not allowed and nobody said it is.
func open(t testing.TB) *syscalls.Counter {
	t.Helper()
	c, err := syscalls.Open()
	if err != nil {
		if os.Geteuid() != 0 && errors.Is(err, bench.ErrUnsupported) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestCount(t *testing.T) {
	c := open(t)
	const calls = 100_000
	unix.Getppid()
	before := c.SystemCalls(os.Getpid())
	for range calls {
		unix.Getppid()
	}
	// Go's own threads make some meanwhile.
	if n := c.SystemCalls(os.Getpid()) - before; n < calls || n > 1.05*calls {
		t.Errorf("%v system calls, of which this test made %d", n, calls)
	}
}

// What ran in the same process before the program is not the program's, and a
// process that has ended is forgotten.
func TestCountOfAProgram(t *testing.T) {
	c := open(t)
	// The shell makes a system call in each round before it becomes another program.
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 2000 ]; do cd /; i=$((i+1)); done; exec cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	const lines = 500
	for range lines {
		if _, err := in.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	// A read and a write for each, and what it takes to begin.
	if n := c.SystemCalls(pid); n < 2*lines || n > 2*lines+300 {
		t.Errorf("%v system calls to copy %d times", n, lines)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := c.SystemCalls(pid); !math.IsNaN(n) {
		t.Errorf("%v system calls of a process that has ended", n)
	}
}

// Who may not is told what it takes.
func TestOpenAsAnOrdinaryUser(t *testing.T) {
	if os.Getenv(asUser) != "" {
		c, err := syscalls.Open()
		if err == nil {
			t.Fatal(errors.Join(errors.New("allowed"), c.Close()))
		}
		if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), "needs root, or CAP_BPF and CAP_PERFMON") {
			t.Fatal(err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to become another user")
	}
	again(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}, asUser)
}

// Where processes have other numbers, nothing is counted.
func TestOpenInAPIDNamespace(t *testing.T) {
	if os.Getenv(inNamespace) != "" {
		c, err := syscalls.Open()
		if err == nil {
			t.Fatal(errors.Join(errors.New("allowed"), c.Close()))
		}
		if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), "PID namespace") {
			t.Fatal(err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a PID namespace")
	}
	again(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}, inNamespace)
}

const (
	asUser      = "TARE_TEST_SYSCALLS_USER"
	inNamespace = "TARE_TEST_SYSCALLS_NAMESPACE"
)

// again runs the test that calls it in another process.
func again(t *testing.T, as *syscall.SysProcAttr, mark string) {
	t.Helper()
	self, err := os.Open("/proc/self/exe") // its directory may not be everybody's
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = self.Close() }() // it was only read
	cmd := exec.Command("/proc/self/fd/3", "-test.run", "^"+t.Name()+"$")
	cmd.ExtraFiles, cmd.SysProcAttr, cmd.Dir = []*os.File{self}, as, "/"
	cmd.Env = append(os.Environ(), mark+"=1")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

// What counting costs: run with -bench and compare.
func BenchmarkSystemCall(b *testing.B) {
	run := func(b *testing.B) {
		for b.Loop() {
			unix.Getppid()
		}
	}
	b.Run("uncounted", run)
	b.Run("counted", func(b *testing.B) {
		c := open(b)
		run(b)
		b.ReportMetric(float64(c.Cost().Nanoseconds()), "ns-said")
	})
}
