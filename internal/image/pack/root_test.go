package pack_test

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/image/pack"
)

// TestCache packs a program of another root, whose library only the cache of
// that root tells, with a variant for some CPUs. Inside, the loader chooses as
// it does outside.
func TestCache(t *testing.T) {
	wantRoot(t)
	w := newFixtureTree(t)
	w.dir = unpack(t, program(t, pack.Host{}, "/bin/sh"))
	one := w.library("opt/lib/libone.so")
	w.library("opt/lib/glibc-hwcaps/x86-64-v2/libone.so")
	w.library("opt/lib/libunused.so")
	w.program("bin/prog", one)
	if err := os.WriteFile(filepath.Join(w.dir, "etc/ld.so.conf"), []byte("/opt/lib\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("ldconfig", "-r", w.dir).CombinedOutput(); err != nil {
		t.Fatalf("ldconfig: %v\n%s", err, out)
	}
	s := program(t, pack.Host{Root: w.dir}, "/bin/prog")
	var got []string
	for _, file := range hostFiles(s) {
		if strings.HasPrefix(file, "/opt") {
			got = append(got, file)
		}
	}
	want := []string{"/opt/lib/glibc-hwcaps/x86-64-v2/libone.so", "/opt/lib/libone.so"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files below /opt (-want +got):\n%s", diff)
	}
	outside := trace(t, w.dir, "/bin/prog")
	if !slices.ContainsFunc(outside, func(l string) bool { return strings.HasPrefix(l, "libone.so => /opt/lib/") }) {
		t.Errorf("the loader has not found libone.so by its cache: %q", outside)
	}
	if diff := cmp.Diff(outside, trace(t, unpack(t, s), "/bin/prog")); diff != "" {
		t.Errorf("loaded outside (-) and inside (+):\n%s", diff)
	}
}

// musl makes a root with a loader of the name of musl's, and returns it.
func (w fixtureTree) musl(flags ...string) pack.Host {
	w.t.Helper()
	w.library("lib/ld-musl-x86_64.so.1")
	w.link("bin/prog", append([]string{"-pie", "-Wl,-e,main", "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"}, flags...))
	return pack.Host{Root: w.dir}
}

// TestMusl has no musl to compare with: it holds the rules as they are in
// ldso/dynlink.c. None of glibc's files is in the image.
func TestMusl(t *testing.T) {
	for _, test := range []struct {
		name string
		make func(w fixtureTree) pack.Host
		want []string
		miss string
	}{
		{name: "the loader is the C library", make: func(w fixtureTree) pack.Host {
			return w.musl(w.library("lib/libc.musl-x86_64.so.1"), w.library("lib/libpthread.so.0"))
		}, want: []string{"/bin/prog", "/lib/ld-musl-x86_64.so.1"}},
		{name: "default directories", make: func(w fixtureTree) pack.Host {
			w.library("usr/lib/libone.so")
			return w.musl(w.library("usr/local/lib/libone.so"))
		}, want: []string{"/bin/prog", "/lib/ld-musl-x86_64.so.1", "/usr/local/lib/libone.so"}},
		{name: "directories of a file", make: func(w fixtureTree) pack.Host {
			w.text("etc/ld-musl-x86_64.path", "/opt/a:/opt/b\n/opt/c\n")
			w.library("lib/libone.so")
			return w.musl(w.library("opt/c/libone.so"))
		}, want: []string{"/bin/prog", "/etc/ld-musl-x86_64.path", "/lib/ld-musl-x86_64.so.1", "/opt/c/libone.so"}},
		{name: "no others then", make: func(w fixtureTree) pack.Host {
			w.text("etc/ld-musl-x86_64.path", "/opt/a")
			return w.musl(w.library("lib/libone.so"))
		}, miss: "libone.so"},
		{name: "runpath is inherited", make: func(w fixtureTree) pack.Host {
			one := w.library("opt/libone.so", w.library("opt/libtwo.so"))
			return w.musl(one, runpath+"$ORIGIN/../opt")
		}, want: []string{"/bin/prog", "/lib/ld-musl-x86_64.so.1", "/opt/libone.so", "/opt/libtwo.so"}},
		{name: "no other token", make: func(w fixtureTree) pack.Host {
			return w.musl(w.library("opt/libone.so"), rpath+"/opt:$LIB")
		}, miss: "libone.so"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := test.make(newFixtureTree(t))
			if test.miss != "" {
				refuses(t, h, "/bin/prog", "needs the library "+test.miss)
				return
			}
			s := program(t, h, "/bin/prog")
			if diff := cmp.Diff(test.want, hostFiles(s)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			for _, e := range s.Entries {
				if e.Path == "/etc/nsswitch.conf" || e.Path == "/etc/ld.so.cache" {
					t.Errorf("%s is in the image", e.Path)
				}
			}
		})
	}
}

func (w fixtureTree) text(name, data string) {
	w.t.Helper()
	if err := os.WriteFile(w.path(name), []byte(data), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// TestHints takes what programs are known to open, with what that needs; not
// what could not be opened outside either.
func TestHints(t *testing.T) {
	w := newFixtureTree(t)
	w.dir = unpack(t, program(t, pack.Host{}, "/bin/sh"))
	w.program("usr/bin/fio")
	w.program("usr/bin/sysbench")
	one := w.library("usr/lib/libone.so")
	w.library("usr/lib/some/fio/fio-good.so", one)
	lost := w.library("usr/lib/some/fio/fio-lost.so", w.library("usr/lib/liblost.so"))
	if err := os.Remove(filepath.Join(path.Dir(lost), "../../liblost.so")); err != nil {
		t.Fatal(err)
	}
	w.text("usr/share/sysbench/test.lua", "return 1")
	for prog, want := range map[string][]string{
		"/usr/bin/fio":      {"/usr/lib/libone.so", "/usr/lib/some/fio/fio-good.so"},
		"/usr/bin/sysbench": {"/usr/share/sysbench/test.lua"},
	} {
		got := slices.DeleteFunc(hostFiles(packed(t, w.dir, prog)), func(file string) bool {
			return file == prog || strings.Contains(file, "ld-linux") || strings.Contains(file, "-linux-gnu/")
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", prog, diff)
		}
	}
}

// TestSame wants the same bytes of the same program, whoever owns it and
// whenever it was installed.
func TestSame(t *testing.T) {
	w := newFixtureTree(t)
	prog := w.program("prog")
	before := layer(t, program(t, pack.Host{}, prog))
	data, err := os.ReadFile(prog)
	if err != nil {
		t.Fatal(err)
	}
	w.text("prog.new", string(data))
	if err := os.Rename(w.path("prog.new"), prog); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(prog, 0o4711|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	s := program(t, pack.Host{}, prog)
	if !slices.Equal(before, layer(t, s)) {
		t.Error("the same program gives two layers")
	}
	if !s.SetID {
		t.Error("it is not said that set-user-ID is lost")
	}
}

// TestStatic takes a program that needs nothing, and what is in every image.
func TestStatic(t *testing.T) {
	w := newFixtureTree(t)
	w.link("prog", []string{"-static", "-Wl,-e,main"})
	var got []string
	for _, e := range program(t, pack.Host{Root: w.dir}, "/prog").Entries {
		got = append(got, e.Mode.String()+" "+e.Path)
	}
	want := []string{
		"drwxr-xr-x /dev", "drwxr-xr-x /etc", "-rw-r--r-- /etc/group", "-rw-r--r-- /etc/hosts", "-rw-r--r-- /etc/passwd",
		"drwxr-xr-x /proc", "-rwxr-xr-x /prog", "drwxr-xr-x /sys", "dtrwxrwxrwx /tare-data", "dtrwxrwxrwx /tmp",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}
