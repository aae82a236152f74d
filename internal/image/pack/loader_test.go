package pack_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/image/pack"
)

// trace asks the dynamic loader itself what a program loads, within a root: a
// line for each library, without the address.
func trace(t *testing.T, root, program string) []string {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Dir, cmd.Env = "/", []string{"LD_TRACE_LOADED_OBJECTS=1"}
	if root != "" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		defer withProc(t, root)()
	}
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) { // it fails where a library is missing
		t.Fatalf("%s in %q: %v", program, root, err)
	}
	text := regexp.MustCompile(` \(0x[0-9a-f]+\)`).ReplaceAllString(string(out), "")
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\t' })
	slices.Sort(lines)
	return lines
}

// withProc makes /proc visible within a root, where the loader asks for the
// program's path, and returns what undoes it.
func withProc(t *testing.T, root string) (undo func()) {
	t.Helper()
	proc := filepath.Join(root, "proc")
	if err := syscall.Mount("/proc", proc, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Unmount(proc, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}
}

// libraries are the files that a trace names.
func libraries(lines []string) (files []string) {
	for _, line := range lines {
		_, file, found := strings.Cut(line, " => ")
		if !found {
			file = line
		}
		if filepath.IsAbs(file) {
			files = append(files, file)
		}
	}
	return files
}

// wantRoot ends a test that needs root.
func wantRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root, so there is no chroot")
	}
}

func program(t *testing.T, h pack.Host, name string) *pack.Set {
	t.Helper()
	s, err := h.Plain(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func layer(t *testing.T, s *pack.Set) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := pack.WriteLayer(t.Context(), &b, s.Entries); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unpack makes a directory of a set's layer.
func unpack(t *testing.T, s *pack.Set) string {
	t.Helper()
	dir := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(layer(t, s))); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err == nil {
			err = unpackEntry(filepath.Join(dir, h.Name), h, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func unpackEntry(name string, h *tar.Header, r io.Reader) error {
	switch h.Typeflag {
	case tar.TypeDir:
		return os.Mkdir(name, h.FileInfo().Mode())
	case tar.TypeSymlink:
		return os.Symlink(h.Linkname, name)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return os.WriteFile(name, data, h.FileInfo().Mode())
}

// hostFiles are the paths of the files that come from the host.
func hostFiles(s *pack.Set) (paths []string) {
	for _, e := range s.HostFiles() {
		paths = append(paths, e.Path)
	}
	return paths
}

// TestInstalled compares with what the loader says of programs that are here,
// and asks it again inside, where it must say the same.
func TestInstalled(t *testing.T) {
	for _, name := range []string{"sh", "bash", "curl", "fio", "iperf3", "nginx", "sockperf", "stress-ng", "sysbench"} {
		t.Run(name, func(t *testing.T) {
			file, err := pack.Find(name)
			if err != nil {
				t.Skip(err)
			}
			s := program(t, pack.Host{}, file)
			outside := trace(t, "", file)
			want := []string{realPath(t, file)}
			for _, l := range libraries(outside) {
				want = append(want, realPath(t, l))
			}
			slices.Sort(want)
			if diff := cmp.Diff(slices.Compact(want), linked(s)); diff != "" {
				t.Errorf("files that the loader names (-) and files packed (+):\n%s", diff)
			}
			wantRoot(t)
			if diff := cmp.Diff(outside, trace(t, unpack(t, s), file)); diff != "" {
				t.Errorf("loaded outside (-) and inside (+):\n%s", diff)
			}
		})
	}
}

// linked are the files that were taken because something is linked to them, and
// not because something is known to open them.
func linked(s *pack.Set) (paths []string) {
	for _, e := range s.HostFiles() {
		library := e.Wanted == "" || strings.Contains(e.Path, ".so") || strings.Contains(e.Path, "/ld-")
		if library && e.Wanted != "libc.so.6" {
			paths = append(paths, e.Path)
		}
	}
	return paths
}

func realPath(t *testing.T, file string) string {
	t.Helper()
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestFind looks for programs as a shell does.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "one")
	if err := os.WriteFile(file, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	for name, want := range map[string]string{
		"one":               file,
		"/usr/bin/../bin/x": "/usr/bin/x",
		"ldconfig":          "/usr/sbin/ldconfig", // not in PATH
	} {
		if got, err := pack.Find(name); got != want || err != nil {
			t.Errorf("Find(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"", "two", "./one", "a/b"} {
		if got, err := pack.Find(name); err == nil {
			t.Errorf("Find(%q) = %q, want an error", name, got)
		}
	}
}
