package readback_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// shellInRoot starts a shell with a root of its own, in which script has run, and
// returns its number. Its root is a tmpfs with the directory of data, $data.
func shellInRoot(t *testing.T, script string, args ...string) int {
	t.Helper()
	const enter = `
		PATH=$PATH:/usr/sbin:/sbin root=$1; data=$root` + bench.DataDir + `
		mount -t tmpfs none "$root"
		mkdir "$data" "$root/old"
		shift
	`
	const pivot = `
		cd "$root"; pivot_root . old; cd /`
	return shellInNamespaces(t, enter+script+pivot, append([]string{t.TempDir()}, args...)...)
}

func TestData(t *testing.T) {
	ours, other := t.TempDir(), t.TempDir()
	for name, test := range map[string]struct {
		script, kind, source, want string
	}{
		"in the root":                {"", "bind", "", "layer tmpfs"},
		"in the root, and not there": {"", "bind", ours, "layer tmpfs"},
		"a tmpfs":                    {`mount -t tmpfs none "$data"`, "bind", "", "tmpfs tmpfs"},
		"a tmpfs, and not there":     {`mount -t tmpfs none "$data"`, "bind", ours, "tmpfs tmpfs"},
		"our directory":              {`mount --bind "$1" "$data"`, "bind", ours, "bind " + readback.FileSystem(ours)},
		"a volume":                   {`mount --bind "$1" "$data"`, "volume", ours, "volume " + readback.FileSystem(ours)},
		"another directory":          {`mount --bind "$2" "$data"`, "bind", ours, "other " + readback.FileSystem(other)},
		"hidden by another":          {`mount --bind "$1" "$data"; mount --bind "$2" "$data"`, "bind", ours, "other " + readback.FileSystem(other)},
	} {
		t.Run(name, func(t *testing.T) {
			pid := shellInRoot(t, test.script, ours, other)
			if got, err := readback.Data(pid, test.kind, test.source); err != nil || got != test.want {
				t.Errorf("Data = %q, %v; want %q", got, err, test.want)
			}
			if got, err := readback.DataOr(pid, test.kind, test.source); err != nil || got != test.want {
				t.Errorf("DataSeen = %q, %v; want %q", got, err, test.want)
			}
		})
	}
}

func TestNoData(t *testing.T) {
	for name, script := range map[string]string{
		"nothing": `rmdir "$data"`, "a link": `rmdir "$data"; ln -s /old "$data"`,
	} {
		pid := shellInRoot(t, script)
		if got, err := readback.Data(pid, "bind", ""); err == nil || name == "nothing" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Data where there is %s = %q, %v", name, got, err)
		}
	}
	for _, pid := range []int{0, nobody} {
		if got, err := readback.Data(pid, "bind", ""); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Data of process %d, which is not there = %q, %v", pid, got, err)
		}
	}
}

func TestFileSystem(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/proc/self", link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/proc/self/status": "proc", link: "proc", filepath.Join(dir, "missing"): "",
	} {
		if got := readback.FileSystem(path); got != want {
			t.Errorf("FileSystem(%s) = %q, want %q", path, got, want)
		}
	}
	if got := readback.FileSystem(dir); got == "" || got == "proc" {
		t.Errorf("FileSystem(%s) = %q", dir, got)
	}
}

func TestDataSaid(t *testing.T) {
	for _, test := range []struct{ kind, source, want string }{
		{"layer", "", "layer"},
		{"tmpfs", "", "tmpfs tmpfs"},
		{"volume", "/no/such/directory", "volume"},
		{"bind", "/proc", "bind proc"},
	} {
		if got := readback.DataByEngine(test.kind, test.source); got != test.want {
			t.Errorf("DataSaid(%q, %q) = %q, want %q", test.kind, test.source, got, test.want)
		}
		if got, err := readback.DataOr(0, test.kind, test.source); err != nil || got != test.want {
			t.Errorf("DataSeen(0, %q, %q) = %q, %v; want %q", test.kind, test.source, got, err, test.want)
		}
	}
}
