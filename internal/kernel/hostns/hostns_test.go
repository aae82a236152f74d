package hostns

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMain lets the program of the test be the one that is started: it says where it is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "where" {
		name, err := os.Hostname()
		if err != nil {
			os.Exit(3)
		}
		_, missing := os.Stat(os.Args[2])
		space, err := os.Readlink("/proc/self/ns/net")
		if missing == nil || err != nil {
			os.Exit(4)
		}
		_, _ = os.Stdout.WriteString(name + " " + space) // whoever reads it misses it otherwise
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The program is started in another process's namespaces: what is mounted here is not there, and its file need not be.
func TestStart(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making namespaces takes root")
	}
	host := exec.Command("sh", "-c", "mount --make-rprivate / && "+
		"echo tare-host >/proc/sys/kernel/hostname && echo && exec sleep 1000")
	host.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET,
	}
	ready, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = host.Process.Kill()
		_ = host.Wait()
	})
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir() // as the file system of a container, which its host does not see
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	own := filepath.Join(dir, "own")
	if err := os.WriteFile(own, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, err := Self("where", own)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := startBeside(cmd, host.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v, %q", err, out.String())
	}
	ours, err := os.Readlink("/proc/self/ns/net")
	name, space, _ := strings.Cut(out.String(), " ")
	if err != nil || name != "tare-host" || space == ours || space == "" {
		t.Errorf("it was started in %q, %v; want on tare-host, outside of %s", out.String(), err, ours)
	}
	if here, err := os.Hostname(); err != nil || here == "tare-host" {
		t.Errorf("this process is on %q now, %v", here, err)
	}
}
