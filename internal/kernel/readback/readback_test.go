package readback_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// nobody is the number of no process: the kernel's numbers end below it.
const nobody = 1 << 30

// ask asks the kernel about this process by another way than its files.
func ask(t *testing.T, option int, arg uintptr) bool {
	t.Helper()
	n, err := unix.PrctlRetInt(option, arg, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}

// This process is the same as this process, by either kind of number.
func TestProcessOfThisOne(t *testing.T) {
	for _, pid := range []int{os.Getpid(), unix.Gettid()} {
		got, root, err := readback.Process(pid, []bench.Mount{{Type: "tmpfs", Target: "/no/such/target"}})
		want := bench.Applied{
			Network: "host", Storage: root.Type,
			Security: bench.Security{
				Seccomp: "unconfined", ReadOnly: errors.Is(unix.Access("/", unix.W_OK), unix.EROFS),
				NoNewPrivileges: ask(t, unix.PR_GET_NO_NEW_PRIVS, 0),
				Privileged:      ask(t, unix.PR_CAPBSET_READ, unix.CAP_SYS_ADMIN),
			},
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" || root.Point != "/" || root.Type == "" {
			t.Errorf("Process(%d), with root %+v: %v (-want +got):\n%s", pid, root, err, diff)
		}
	}
}

// shellInNamespaces starts a shell in namespaces of its own, where it runs script, and
// returns its number when that is done. The shell then waits for the test's end.
func shellInNamespaces(t *testing.T, script string, args ...string) int {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-ec", script + "\necho ready; read -r line", "sh"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	err := cmd.Start()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		t.Skipf("no user namespaces here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close() // which ends the shell, with
		_ = cmd.Wait()    // a status that says that it read nothing
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the shell says %q, %v", line, err)
	}
	return cmd.Process.Pid
}

func TestProcess(t *testing.T) {
	source, other, places := t.TempDir(), t.TempDir(), t.TempDir()
	asked := func(kind, name string, m bench.Mount) bench.Mount {
		m.Type, m.Target = kind, filepath.Join(places, name)
		if err := os.Mkdir(m.Target, 0o755); err != nil {
			t.Fatal(err)
		}
		return m
	}
	want := []bench.Mount{
		asked("tmpfs", "tmpfs", bench.Mount{Size: 1000<<10 - 1, ReadOnly: true}),
		asked("bind", "bind", bench.Mount{Source: source}),
		asked("bind", "shown", bench.Mount{Source: source}), // hides another
		asked("bind", "other", bench.Mount{Source: source}),
		asked("bind", "nothing", bench.Mount{Source: source}),
	}
	pid := shellInNamespaces(t, `
		mount -t tmpfs -o size=1000k,ro none "$3/tmpfs"
		mount --bind "$1" "$3/bind"
		mount --bind "$2" "$3/shown"
		mount --bind "$1" "$3/shown"
		mount --bind "$2" "$3/other"`, source, other, places)
	got, root, err := readback.Process(pid, want)
	if err != nil || len(got.Mounts) != 4 {
		t.Fatalf("Process = %+v, %v; want 4 mounts", got, err)
	}
	if m := got.Mounts[3]; m.Type == "bind" || m.Source != "" || m.Target != want[3].Target {
		t.Errorf("a mount of another directory is %+v", m)
	}
	got.Mounts, want = got.Mounts[:3], want[:3]
	applied := bench.Applied{Network: "none", Storage: root.Type, Mounts: want, Security: bench.Security{
		Seccomp: "unconfined", UserNS: true, ReadOnly: root.ReadOnly(), NoNewPrivileges: ask(t, unix.PR_GET_NO_NEW_PRIVS, 0),
	}}
	if diff := cmp.Diff(applied, got); diff != "" {
		t.Errorf("Process (-want +got):\n%s", diff)
	}
}

// The kernel's word is on the filter and the user namespace. The rest is kept.
func TestSecuritySeen(t *testing.T) {
	ours, err := readback.StatusOf(readback.Self)
	if err != nil {
		t.Fatal(err)
	}
	filter := "unconfined"
	if ours.Seccomp != 0 {
		filter = bench.SeccompDocker // as it was said: there is one
	}
	for pid, apart := range map[int]bool{os.Getpid(): false, shellInNamespaces(t, ""): true} {
		word := bench.Security{
			Seccomp: bench.SeccompDocker, UserNS: !apart, Privileged: true, ReadOnly: true, NoNewPrivileges: true,
		}
		want := word
		want.Seccomp, want.UserNS = filter, apart
		if got, err := readback.SecuritySeen(pid, word); err != nil || got != want {
			t.Errorf("SecuritySeen = %+v, %v; want %+v", got, err, want)
		}
	}
	if got, err := readback.SecuritySeen(nobody, bench.Security{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("SecuritySeen of no process = %+v, %v", got, err)
	}
}

func TestInterfaces(t *testing.T) {
	entries, err := os.ReadDir("/sys/class/net")
	if err != nil {
		t.Skip(err)
	}
	want := 0
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 && e.Name() != "lo" { // the others are settings, such as bonding_masters
			want++
		}
	}
	if got, err := readback.Interfaces(readback.Self); err != nil || got != want {
		t.Errorf("Interfaces = %d, %v; want %d, as in /sys/class/net", got, err, want)
	}
	if got, err := readback.Interfaces(shellInNamespaces(t, "")); err != nil || got != 0 {
		t.Errorf("Interfaces of a new namespace = %d, %v", got, err)
	}
}

func TestSameNamespace(t *testing.T) {
	pid := shellInNamespaces(t, "")
	for kind, want := range map[string]bool{"net": false, "user": false, "mnt": false, "ipc": true} {
		got, err := readback.SameNamespace(kind, pid, readback.Self)
		if err != nil || got != want {
			t.Errorf("SameNamespace(%s) = %v, %v; want %v", kind, got, err, want)
		}
		if got, err := readback.SameNamespace(kind, pid, pid); err != nil || !got {
			t.Errorf("SameNamespace(%s) of a process and itself = %v, %v", kind, got, err)
		}
	}
}

func TestNumbers(t *testing.T) {
	if !readback.SameNumbers(readback.Self) || !readback.SameNumbers(os.Getpid()) {
		t.Error("this process is numbered otherwise than by itself")
	}
	pid := shellInNamespaces(t, "")
	if readback.SameNumbers(pid) {
		t.Error("a process in a PID namespace below has the numbers of this one")
	}
	s, err := readback.StatusOf(pid)
	if diff := cmp.Diff([]int{pid, 1}, s.Numbers); err != nil || diff != "" {
		t.Errorf("Numbers: %v (-want +got):\n%s", err, diff)
	}
}

// What is withheld from this process is what it could not get.
func TestWithheld(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		t.Fatal(err)
	}
	var last int
	if _, err := fmt.Sscan(string(text), &last); err != nil {
		t.Fatal(err)
	}
	var want readback.Capabilities
	for c := range last + 1 {
		if !ask(t, unix.PR_CAPBSET_READ, uintptr(c)) {
			want |= 1 << c
		}
	}
	if got, err := readback.Unavailable(readback.Self); err != nil || got != want {
		t.Errorf("Withheld = %#x, %v; want %#x", uint64(got), err, uint64(want))
	}
}

// A process that is not there is never this one, which 0 means elsewhere.
func TestNoProcess(t *testing.T) {
	for _, pid := range []int{0, nobody} {
		_, status := readback.StatusOf(pid)
		_, _, process := readback.Process(pid, nil)
		_, _, mounts := readback.FileSystems(pid, nil)
		_, interfaces := readback.Interfaces(pid)
		_, same := readback.SameNamespace("net", readback.Self, pid)
		_, withheld := readback.Unavailable(pid)
		for name, err := range map[string]error{
			"StatusOf": status, "Process": process, "FileSystems": mounts,
			"Interfaces": interfaces, "SameNamespace": same, "Withheld": withheld,
		} {
			if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(fmt.Sprint(err), fmt.Sprintf("/proc/%d/", pid)) {
				t.Errorf("%s(%d): %v; want fs.ErrNotExist, and where", name, pid, err)
			}
		}
		if readback.SameNumbers(pid) {
			t.Errorf("SameNumbers(%d)", pid)
		}
	}
}
