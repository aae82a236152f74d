package pack_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image/pack"
)

func refuses(t *testing.T, h pack.Host, prog, want string) {
	t.Helper()
	s, err := h.Pack(prog)
	if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), want) {
		t.Errorf("Pack(%s) = %v, %v; want an error that wraps bench.ErrUnsupported and says %q", prog, s, err, want)
	}
}

func write(t *testing.T, name, data string, mode os.FileMode) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(data), mode); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRefused(t *testing.T) {
	w := newFixtureTree(t)
	w.foreign("s390")
	w.program("elsewhere", "-Wl,--dynamic-linker=/nowhere/ld-linux.so")
	w.program("other", "-Wl,--dynamic-linker="+w.program("ld-uClibc.so"))
	w.symlink("loop", "loop")
	plain := w.program("plain")
	if err := os.Chmod(plain, 0o644); err != nil {
		t.Fatal(err)
	}
	for prog, want := range map[string]string{
		"/nowhere/program":                "no such file",
		w.dir:                             "not a regular file",
		"/dev/null":                       "it differs in a container",
		"/proc/self/exe":                  "it differs in a container",
		plain + "/more":                   "not a directory",
		plain:                             "not executable",
		filepath.Join(w.dir, "loop"):      "too many levels of symbolic links",
		filepath.Join(w.dir, "s390"):      "another architecture: EM_S390",
		filepath.Join(w.dir, "elsewhere"): "a dynamic loader that is missing",
		filepath.Join(w.dir, "other"):     "ld-uClibc.so",
		write(t, "text", "text", 0o755):   "not an ELF file",
		write(t, "empty", "", 0o755):      "not an ELF file",
		write(t, "script", "#! /bin/sh -e\nid", 0o755): `is a script for "/bin/sh -e"`,
	} {
		refuses(t, pack.Host{}, prog, want)
	}
	refuses(t, pack.Host{MaxBytes: 1000}, "/bin/sh", "at most")
}

// A file that is not what it was is neither written nor taken for the same.
func TestChanged(t *testing.T) {
	w := newFixtureTree(t)
	prog := w.program("prog")
	s := program(t, pack.Host{}, prog)
	if err := s.Unchanged(); err != nil {
		t.Errorf("Unchanged = %v", err)
	}
	w.library("prog")
	if err := s.Unchanged(); err == nil || !strings.Contains(err.Error(), prog) {
		t.Errorf("Unchanged = %v, want an error that names %s", err, prog)
	}
	var nothing strings.Builder
	if err := pack.WriteLayer(t.Context(), &nothing, s.Entries); err == nil || !strings.Contains(err.Error(), prog) {
		t.Errorf("WriteLayer = %v, want an error that names %s", err, prog)
	}
	if err := os.Remove(prog); err != nil {
		t.Fatal(err)
	}
	if err := s.Unchanged(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Unchanged = %v, want os.ErrNotExist", err)
	}
}
