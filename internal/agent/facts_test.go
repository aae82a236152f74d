package agent_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/agent"
)

func TestFacts(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(binary, "facts")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got agent.Facts
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	want := agent.Facts{
		UID: os.Getuid(), GID: os.Getgid(),
		Dir: dir, Argv: []string{binary, "facts"},
		NetNS: inode(t, "net"), UserNS: inode(t, "user"),
		// The rest comes from files that have tests of their own, and from the machine.
		Interfaces: got.Interfaces, Mounts: got.Mounts,
		NoNewPrivs: got.NoNewPrivs, Seccomp: got.Seccomp, RootWritable: got.RootWritable,
		Shm: got.Shm, Files: got.Files, OOM: got.OOM,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts differ (-want +got):\n%s", diff)
	}
	if len(got.Mounts) == 0 {
		t.Errorf("facts have no mounts: %s", out)
	}
}

func inode(t *testing.T, ns string) uint64 {
	t.Helper()
	info, err := os.Stat("/proc/self/ns/" + ns)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestParseMounts(t *testing.T) {
	got, err := agent.ParseMounts(read(t, "mountinfo"))
	if err != nil {
		t.Fatal(err)
	}
	want := []agent.Mount{
		{Type: "overlay", Source: "overlay", Root: "/", Target: "/"},
		{Type: "proc", Source: "proc", Root: "/", Target: "/proc"},
		{Type: "sysfs", Source: "sysfs", Root: "/", Target: "/sys", ReadOnly: true},
		{Type: "tmpfs", Source: "shm", Root: "/", Target: "/dev/shm"},
		{Type: "ext4", Source: "/dev/vda", Root: "/srv/my data", Target: "/mnt/with space", ReadOnly: true},
		{Type: "ext4", Source: "/dev/vdb", Root: "/", Target: `/mnt/back\slash`, ReadOnly: true},
		{Type: "nsfs", Source: "nsfs", Root: "net:[4026532184]", Target: "/run/netns"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mounts differ (-want +got):\n%s", diff)
	}
}

func TestParseMountsRefuses(t *testing.T) {
	for _, text := range []string{"x", "\n\n", "1 2 0:1 / / rw - proc", "1 2 0:1 / - proc proc rw"} {
		if got, err := agent.ParseMounts(text); err == nil {
			t.Errorf("ParseMounts(%q) = %v, want an error", text, got)
		}
	}
}

func FuzzParseMounts(f *testing.F) {
	f.Add("618 574 0:46 / / rw,relatime - overlay overlay rw\n")
	f.Add(`1 1 0:1 /\040\ /\777 ro - x \134 ro`)
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := agent.ParseMounts(text); err == nil && len(got) > len(text) {
			t.Errorf("ParseMounts(%q) gives %d mounts", text, len(got))
		}
	})
}

func TestParseInterfaces(t *testing.T) {
	got := agent.ParseInterfaces(read(t, "net_dev"))
	if diff := cmp.Diff([]string{"lo", "eth0", "veth1234567"}, got); diff != "" {
		t.Errorf("interfaces differ (-want +got):\n%s", diff)
	}
}

func TestParseStatus(t *testing.T) {
	var got agent.Facts
	if err := agent.ParseStatus(&got, read(t, "status")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(agent.Facts{NoNewPrivs: true, Seccomp: 2}, got); diff != "" {
		t.Errorf("facts differ (-want +got):\n%s", diff)
	}
	if err := agent.ParseStatus(&got, "Seccomp:\tx\n"); err == nil {
		t.Error("ParseStatus takes Seccomp: x, want an error")
	}
}
