package agent_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process is a running agent.
type process struct {
	*exec.Cmd
	out *bufio.Reader
}

// start starts a task. It is killed when the test ends.
func start(t *testing.T, args ...string) process {
	t.Helper()
	cmd := exec.Command(binary, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // likewise
	})
	return process{cmd, bufio.NewReader(out)}
}

// expect reads one line and wants it to be this.
func (p process) expect(t *testing.T, want string) {
	t.Helper()
	if got, err := p.out.ReadString('\n'); got != want+"\n" {
		t.Fatalf("%s printed %q, %v, want %q", p.Args[1], got, err, want)
	}
}

func (p process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// exitStatus waits for the end. It reads to the end first, as Wait wants it.
func (p process) exitStatus(t *testing.T) int {
	t.Helper()
	if _, err := io.Copy(io.Discard, p.out); err != nil {
		t.Fatal(err)
	}
	err := p.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return p.ProcessState.ExitCode()
}

func TestSignals(t *testing.T) {
	for _, test := range []struct {
		args []string
		says string
		code int
	}{
		{[]string{"hold"}, "ready", 0},
		{[]string{"alloc", "1000000"}, "ready", 0},
		{[]string{"fork", "3"}, "forked 3", 0},
		{[]string{"fork", "0"}, "forked 0", 0},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			p := start(t, test.args...)
			p.expect(t, test.says)
			p.signal(t, syscall.SIGTERM)
			if code := p.exitStatus(t); code != test.code {
				t.Errorf("exit status %d after SIGTERM, want %d", code, test.code)
			}
		})
	}
}

func TestSleepEndsWithSIGTERM(t *testing.T) {
	p := start(t, "sleep", "1h")
	eventually(t, "sleep catches SIGTERM", func() bool { return catches(t, p.Process.Pid, syscall.SIGTERM) })
	p.signal(t, syscall.SIGTERM)
	// The runtime catches every signal from its start on, and dies of it properly until the task asks for it.
	if code := p.exitStatus(t); code != 143 && code != -1 {
		t.Errorf("exit status %d after SIGTERM, want 143", code)
	}
}

// catches reports whether a process has a handler for a signal.
func catches(t *testing.T, pid int, s syscall.Signal) bool {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "SigCgt:")
	var mask uint64
	if _, err := fmt.Sscanf(rest, "%x", &mask); err != nil {
		t.Fatal(err)
	}
	return mask&(1<<(s-1)) != 0
}

func TestStubbornIgnoresSignals(t *testing.T) {
	p := start(t, "stubborn")
	p.expect(t, "ready")
	p.signal(t, syscall.SIGTERM)
	p.signal(t, syscall.SIGINT)
	p.signal(t, syscall.SIGKILL)
	if code := p.exitStatus(t); code != -1 { // -1: by a signal, and only SIGKILL can have been it
		t.Errorf("exit status %d, want death by SIGKILL", code)
	}
	if got := p.ProcessState.Sys().(syscall.WaitStatus).Signal(); got != syscall.SIGKILL {
		t.Errorf("died of %v, want SIGKILL", got)
	}
}

func TestForkedChildrenDieWithTheirParent(t *testing.T) {
	p := start(t, "fork", "5")
	p.expect(t, "forked 5")
	kids := children(t, p.Process.Pid)
	if len(kids) != 5 {
		t.Fatalf("children %v, want 5", kids)
	}
	p.signal(t, syscall.SIGKILL)
	p.exitStatus(t)
	for _, pid := range kids {
		eventually(t, "child "+pid+" is gone", func() bool { return dead(pid) })
	}
}

// children lists the processes whose parent is pid.
func children(t *testing.T, pid int) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var kids []string
	for _, file := range stats {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == fmt.Sprint(pid) {
			kids = append(kids, filepath.Base(filepath.Dir(file)))
		}
	}
	return kids
}

// dead reports whether a process has ended; who inherited it may not have reaped it.
func dead(pid string) bool {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so after 10 s: %s", what)
		}
	}
}

func TestSpewStopsWhenNobodyReads(t *testing.T) {
	cmd := exec.Command(binary, "spew")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1<<20)); err != nil {
		t.Error(err)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("spew ended well, want a failure")
	}
}
