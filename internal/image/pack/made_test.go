package pack_test

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/image/pack"
)

// A fixtureTree makes programs and libraries below a directory.
type fixtureTree struct {
	t   *testing.T
	dir string
}

func newFixtureTree(t *testing.T) fixtureTree {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		if os.Getenv("TARE_TEST_ENGINES") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return fixtureTree{t, realPath(t, t.TempDir())}
}

// path is where something is, or will be: its directory is there.
func (w fixtureTree) path(name string) string {
	w.t.Helper()
	file := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		w.t.Fatal(err)
	}
	return file
}

// library makes one that is linked as flags say, without the C library. It
// calls itself by its file's name.
func (w fixtureTree) library(name string, flags ...string) string {
	w.t.Helper()
	return w.link(name, append([]string{"-shared", "-Wl,-soname," + filepath.Base(name)}, flags...))
}

// program makes one that needs what flags name, and the C library.
func (w fixtureTree) program(name string, flags ...string) string {
	w.t.Helper()
	return w.link(name, append([]string{"-pie", "-Wl,-e,main"}, append(flags, "-lc")...))
}

func (w fixtureTree) link(name string, flags []string) string {
	w.t.Helper()
	file := w.path(name)
	args := []string{
		"-o", file, "-fPIC", "-nostdlib", "-Wl,--no-as-needed,--allow-shlib-undefined", "-x", "c", "-", "-x", "none",
	}
	cmd := exec.Command("gcc", append(args, flags...)...)
	cmd.Stdin = strings.NewReader("int main(void) { return 0; }")
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%q: %v\n%s", cmd.Args, err, out)
	}
	return file
}

// foreign makes a library of another architecture out of one.
func (w fixtureTree) foreign(name string) {
	w.t.Helper()
	file := w.library(name)
	data, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	data[18], data[19] = byte(elf.EM_S390), 0 // e_machine
	if err := os.WriteFile(file, data, 0o755); err != nil {
		w.t.Fatal(err)
	}
}

func (w fixtureTree) symlink(target, name string) string {
	w.t.Helper()
	file := w.path(name)
	if err := os.Symlink(target, file); err != nil {
		w.t.Fatal(err)
	}
	return file
}

const (
	rpath   = "-Wl,--disable-new-dtags,-rpath,"
	runpath = "-Wl,--enable-new-dtags,-rpath,"
)

// multiarch is what $LIB means to the C library.
func multiarch(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("gcc", "-print-multiarch").Output()
	if err != nil {
		t.Fatal(err)
	}
	if triplet := strings.TrimSpace(string(out)); triplet != "" {
		return "lib/" + triplet
	}
	return "lib64"
}

// TestMade compares with the loader what it finds by the rules for RPATH and
// RUNPATH. The program is bin/prog.
func TestMade(t *testing.T) {
	for _, test := range []struct {
		name string
		make func(w fixtureTree)
		want []string // below the workshop's directory, beside the program
		miss string   // the library that nobody finds
	}{
		{name: "runpath from the origin", make: func(w fixtureTree) {
			w.program("bin/prog", w.library("lib/libone.so"), runpath+"$ORIGIN/../lib")
		}, want: []string{"lib/libone.so"}},
		{name: "rpath is inherited", make: func(w fixtureTree) {
			one := w.library("lib/libone.so", w.library("lib/libtwo.so"))
			w.program("bin/prog", one, rpath+"${ORIGIN}/../lib")
		}, want: []string{"lib/libone.so", "lib/libtwo.so"}},
		{name: "runpath is not", make: func(w fixtureTree) {
			one := w.library("lib/libone.so", w.library("lib/libtwo.so"))
			w.program("bin/prog", one, runpath+"$ORIGIN/../lib")
		}, miss: "libtwo.so"},
		{name: "a library's runpath hides the program's rpath", make: func(w fixtureTree) {
			w.library("lib/libtwo.so")
			one := w.library("lib/libone.so", w.library("other/libtwo.so"), runpath+"$ORIGIN/../other")
			w.program("bin/prog", one, rpath+"$ORIGIN/../lib")
		}, want: []string{"lib/libone.so", "other/libtwo.so"}},
		{name: "also where it leads nowhere", make: func(w fixtureTree) {
			one := w.library("lib/libone.so", w.library("lib/libtwo.so"), runpath+"$ORIGIN/nowhere")
			w.program("bin/prog", one, rpath+"$ORIGIN/../lib")
		}, miss: "libtwo.so"},
		{name: "a library's rpath before the program's", make: func(w fixtureTree) {
			w.library("lib/libtwo.so")
			one := w.library("lib/libone.so", w.library("other/libtwo.so"), rpath+"$ORIGIN/../other")
			w.program("bin/prog", one, rpath+"$ORIGIN/../lib")
		}, want: []string{"lib/libone.so", "other/libtwo.so"}},
		{name: "another architecture is passed over", make: func(w fixtureTree) {
			two := w.library("two/libone.so")
			w.program("bin/prog", two, runpath+"$ORIGIN/../one:$ORIGIN/../two")
			w.foreign("one/libone.so")
		}, want: []string{"two/libone.so"}},
		{name: "links are kept", make: func(w fixtureTree) {
			one := w.library("real/libone.so.1.2", "-Wl,-soname,libone.so.1")
			w.symlink("../real/libone.so.1.2", "lib/libone.so.1")
			w.program("bin/prog", one, runpath+"$ORIGIN/../lib")
		}, want: []string{"real/libone.so.1.2"}},
		{name: "the origin is behind links", make: func(w fixtureTree) {
			w.program("real/prog", w.library("real/libone.so"), runpath+"$ORIGIN")
			w.symlink("../real/prog", "bin/prog")
		}, want: []string{"real/libone.so"}},
		{name: "a path is a path", make: func(w fixtureTree) {
			two := w.library("two/libtwo.so")
			one := w.link("one/libone.so", []string{"-shared", two, runpath + "$ORIGIN/../two"})
			w.program("bin/prog", one) // without a name of its own, it is needed by its path
		}, want: []string{"one/libone.so", "two/libtwo.so"}},
		{name: "lib and platform", make: func(w fixtureTree) {
			one := w.library("dir/" + multiarch(w.t) + "/libone.so")
			two := w.library("dir/" + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] + "/libtwo.so")
			w.program("bin/prog", one, two, runpath+"$ORIGIN/../dir/$LIB:$ORIGIN/../dir/${PLATFORM}")
		}, want: []string{
			"dir/" + multiarch(t) + "/libone.so",
			"dir/" + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] + "/libtwo.so",
		}},
		{name: "each needs the other", make: func(w fixtureTree) {
			one := w.library("lib/libone.so")
			two := w.library("lib/libtwo.so", one, runpath+"$ORIGIN")
			w.library("lib/libone.so", two, runpath+"$ORIGIN")
			w.program("bin/prog", one, runpath+"$ORIGIN/../lib")
		}, want: []string{"lib/libone.so", "lib/libtwo.so"}},
		{name: "what was found is found", make: func(w fixtureTree) {
			two := w.library("lib/libtwo.so")
			one := w.library("lib/libone.so", two) // would not find it
			w.program("bin/prog", two, one, runpath+"$ORIGIN/../lib")
		}, want: []string{"lib/libone.so", "lib/libtwo.so"}},
		{name: "and by the name that it gives itself", make: func(w fixtureTree) {
			one := w.link("one/libone.so", []string{"-shared"}) // needed by its path
			w.program("bin/prog", one, w.library("lib/libtwo.so", w.library("lost/libone.so")), runpath+"$ORIGIN/../lib")
			w.library("one/libone.so")
		}, want: []string{"lib/libtwo.so", "one/libone.so"}},
		{name: "no default directories", make: func(w fixtureTree) {
			w.program("bin/prog", "-Wl,-z,nodefaultlib")
		}, miss: "libc.so.6"},
		{name: "for some CPUs", make: func(w fixtureTree) {
			one := w.library("lib/libone.so")
			w.library("lib/glibc-hwcaps/x86-64-v2/libone.so")
			w.library("lib/glibc-hwcaps/power99/libone.so")
			w.program("bin/prog", one, runpath+"$ORIGIN/../lib")
		}, want: []string{"lib/glibc-hwcaps/power99/libone.so", "lib/glibc-hwcaps/x86-64-v2/libone.so", "lib/libone.so"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newFixtureTree(t)
			test.make(w)
			prog := filepath.Join(w.dir, "bin/prog")
			outside := trace(t, "", prog)
			if test.miss != "" {
				missing(t, prog, test.miss, outside)
				return
			}
			s := program(t, pack.Host{}, prog)
			want := []string{realPath(t, prog)}
			for _, name := range test.want {
				want = append(want, filepath.Join(w.dir, name))
			}
			slices.Sort(want)
			got := slices.DeleteFunc(hostFiles(s), func(file string) bool { return !strings.HasPrefix(file, w.dir) })
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			wantRoot(t)
			if diff := cmp.Diff(outside, trace(t, unpack(t, s), prog)); diff != "" {
				t.Errorf("loaded outside (-) and inside (+):\n%s", diff)
			}
		})
	}
}

// missing wants an error that names a library which the loader does not find either.
func missing(t *testing.T, prog, library string, outside []string) {
	t.Helper()
	if !slices.Contains(outside, library+" => not found") {
		t.Errorf("the loader finds %s: %q", library, outside)
	}
	refuses(t, pack.Host{}, prog, "needs the library "+library)
}
