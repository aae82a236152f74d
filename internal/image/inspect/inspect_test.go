package inspect_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/image/inspect"
)

// The entries of layers that tests write.
type entry = imagetest.Entry

var file, dir, symlink, hardlink = imagetest.File, imagetest.Dir, imagetest.Symlink, imagetest.Hardlink

// saved writes an image as "docker save" does.
func saved(tb testing.TB, process v1.Config, layers ...[]byte) string {
	tb.Helper()
	config := v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH, Config: process, RootFS: v1.RootFS{Type: "layers"}}
	var files []string
	var members []entry
	for _, l := range layers {
		sum := sha256.Sum256(l)
		name := hex.EncodeToString(sum[:])
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, v1.Hash{Algorithm: "sha256", Hex: name})
		files, members = append(files, name), append(members, file(name, string(l)))
	}
	raw, err := json.Marshal(config)
	if err != nil {
		tb.Fatal(err)
	}
	manifest, err := json.Marshal([]any{map[string]any{"Config": "c", "Layers": files}})
	if err != nil {
		tb.Fatal(err)
	}
	name := filepath.Join(tb.TempDir(), "image.tar")
	if err := os.WriteFile(name,
		imagetest.Archive(tb, append(members, file("c", string(raw)), file("manifest.json", string(manifest)))...),
		0o600); err != nil {
		tb.Fatal(err)
	}
	return "tar:" + name
}

func inspected(tb testing.TB, ref string) (*inspect.Report, error) {
	tb.Helper()
	img, err := image.NewLibrary(tb.TempDir(), image.WithLimits(image.Limits{Bytes: 64 << 20})).Resolve(tb.Context(), ref)
	if err != nil {
		tb.Fatal(err)
	}
	return inspect.Inspect(tb.Context(), img)
}

func report(tb testing.TB, layers ...[]byte) *inspect.Report {
	tb.Helper()
	r, err := inspected(tb, saved(tb, v1.Config{}, layers...))
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// What a container sees counts: white-outs hide, upper layers win, a file with
// two names is one file.
func TestTree(t *testing.T) {
	r := report(t,
		imagetest.Archive(t, dir("a"), file("a/1", "12345"), file("a/2", "12"), dir("b"), file("b/1", "1"),
			symlink("l", "a"), file("kept", "1")),
		imagetest.Archive(t, file("a/.wh.1", ""), dir("b"), file("b/.wh..wh..opq", ""), file("b/2", "123"),
			file("l/3", "1234"), hardlink("again", "l/3"), file("implied/deep/x", "")))
	if r.Files != 6 || r.Links != 1 || r.Dirs != 4 || r.Unpacked != 2+3+4+1 {
		t.Errorf("%d files, %d links, %d directories, %d bytes; want 6, 1, 4 and 10", r.Files, r.Links, r.Dirs, r.Unpacked)
	}
	if l := r.Layers; len(l) != 2 || l[0].Files != 4 || l[0].Unpacked != 9 || l[1].Hidden != 2 ||
		l[1].Compression != image.Plain {
		t.Errorf("layers %+v", l)
	}
}

func TestLibc(t *testing.T) {
	const banner = "\x00GNU C Library (Debian GLIBC 2.36-9+deb12u8) stable release version 2.36.\nCopyright"
	for _, test := range []struct {
		name    string
		entries []entry
		want    []inspect.Libc
	}{
		{"static", []entry{file("bin/a", banner), file("opt/lib/libc.so.6", banner)}, []inspect.Libc{}},
		{
			"glibc",
			[]entry{dir("usr"), symlink("lib", "usr/lib"), file("usr/lib/x86_64-linux-gnu/libc.so.6", banner)},
			[]inspect.Libc{{"glibc", "2.36", "/lib/x86_64-linux-gnu/libc.so.6"}},
		},
		{"older glibc", []entry{
			file("lib/aarch64-linux-gnu/libc-2.31.so", strings.ReplaceAll(banner, "2.36", "2.31")),
			symlink("lib/aarch64-linux-gnu/libc.so.6", "libc-2.31.so"),
		}, []inspect.Libc{{"glibc", "2.31", "/lib/aarch64-linux-gnu/libc.so.6"}}},
		{"of Fedora", []entry{file("usr/lib64/libc.so.6", banner), symlink("lib64", "usr/lib64")}, []inspect.Libc{{"glibc", "2.36", "/lib64/libc.so.6"}}},
		{"musl", []entry{file("lib/ld-musl-x86_64.so.1", "musl libc\x00Version %s\x001.2.5\x00")}, []inspect.Libc{{"musl", "1.2.5", "/lib/ld-musl-x86_64.so.1"}}},
		{"musl beside glibc", []entry{
			file("usr/lib/x86_64-linux-musl/libc.so", "\x001.2.3\x00"),
			symlink("lib/ld-musl-x86_64.so.1", "/usr/lib/x86_64-linux-musl/libc.so"), file("lib64/libc.so.6", banner),
		}, []inspect.Libc{{"musl", "1.2.3", "/lib/ld-musl-x86_64.so.1"}, {"glibc", "2.36", "/lib64/libc.so.6"}}},
		{"silent", []entry{file("lib64/libc.so.6", "nothing")}, []inspect.Libc{{"glibc", "", "/lib64/libc.so.6"}}},
	} {
		if diff := cmp.Diff(test.want, report(t, imagetest.Archive(t, test.entries...)).Libc); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// The host's own C library tells its version.
func TestLibcOfThisHost(t *testing.T) {
	r, err := inspected(t, "host:/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Libc) != 1 || r.Libc[0].Version == "" {
		t.Errorf("C library %+v, want one with a version", r.Libc)
	}
}

func TestSystem(t *testing.T) {
	r := report(t, imagetest.Archive(t, file("usr/lib/os-release", "NAME=x\nPRETTY_NAME=\"Some Linux 1\"\n"),
		symlink("etc/os-release", "../usr/lib/os-release")))
	if r.System != "Some Linux 1" {
		t.Errorf("system %q", r.System)
	}
}

// Compressed layers are what they are; others as gzip would make them.
func TestSizes(t *testing.T) {
	r, err := inspected(t, imagetest.Layered(t, bytes.Repeat([]byte("program "), 10_000)))
	if err != nil {
		t.Fatal(err)
	}
	l := r.Layers
	if len(l) != 3 || l[0].Compression != image.Gzip || l[1].Compression != image.Plain || l[2].Compression != image.Zstd {
		t.Fatalf("layers %+v", l)
	}
	if l[0].Compressed != l[0].Stored || l[1].Compressed >= l[1].Stored || l[1].Compressed < 20 ||
		r.Compressed != l[0].Compressed+l[1].Compressed+l[2].Compressed {
		t.Errorf("layers %+v, sum %d", l, r.Compressed)
	}
}

func TestConfig(t *testing.T) {
	r, err := inspected(t, saved(t, v1.Config{
		User: "7", Entrypoint: []string{"/a"}, Cmd: []string{"b c"}, Env: []string{"A=1"}, WorkingDir: "/w",
		ExposedPorts: map[string]struct{}{"80/tcp": {}, "443/tcp": {}}, Volumes: map[string]struct{}{"/data": {}},
		Labels: map[string]string{"b": "2", "a": "1"}, StopSignal: "SIGINT",
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "x"}, Interval: time.Second},
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := inspect.Config{
		User: "7", Entrypoint: []string{"/a"}, Cmd: []string{"b c"}, Env: []string{"A=1"}, Dir: "/w",
		Ports: []string{"443/tcp", "80/tcp"}, Volumes: []string{"/data"}, Labels: []string{"a=1", "b=2"},
		StopSignal: "SIGINT", Health: []string{"CMD", "x"},
	}
	if diff := cmp.Diff(want, r.Config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

// What Rootfs refuses is refused here too.
func TestRefuses(t *testing.T) {
	ref := saved(t, v1.Config{}, imagetest.Archive(t, entry{Kind: tar.TypeChar, Name: "dev/null"}))
	if _, err := inspected(t, ref); !errors.Is(err, image.ErrHostile) || !strings.Contains(fmt.Sprint(err), "device") {
		t.Errorf("inspected: %v, want an error that wraps ErrHostile", err)
	}
}

// Links lead around in the image, and never out of it.
func TestLinks(t *testing.T) {
	r := report(t, imagetest.Archive(t, symlink("lib", "../../usr/lib"), symlink("lib64", "lib64"),
		symlink("usr/lib/libc.so.6", "/etc/../../other"), file("other", "GNU C Library x version 2.36"),
		symlink("etc/os-release", "/proc/version")))
	if diff := cmp.Diff([]inspect.Libc{{"glibc", "2.36", "/lib/libc.so.6"}}, r.Libc); diff != "" || r.System != "" {
		t.Errorf("system %q; C libraries (-want +got):\n%s", r.System, diff)
	}
}

func TestCompare(t *testing.T) {
	base := imagetest.Archive(t, file("base", "12345"))
	a, err := inspected(t,
		saved(t, v1.Config{User: "7", Env: []string{"A=1", "P=/bin"}}, base, imagetest.Archive(t, file("a", ""))))
	if err != nil {
		t.Fatal(err)
	}
	b, err := inspected(t, saved(t, v1.Config{Env: []string{"P=/bin", "B="}}, base, imagetest.Archive(t, file("b", ""))))
	if err != nil {
		t.Fatal(err)
	}
	c := inspect.Compare([]*inspect.Report{a, b})
	if len(c.Shared) != 1 || c.Shared[0].Bytes != 5 || len(c.Shared[0].Images) != 2 {
		t.Errorf("shared %+v", c.Shared)
	}
	if diff := cmp.Diff([]inspect.Difference{
		{"environment A", []string{"1", ""}}, {"environment B", []string{"", `""`}}, {"user", []string{"7", "root"}},
	}, c.Config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	same := inspect.Compare([]*inspect.Report{a, a})
	if len(same.Config) != 0 || len(same.Shared) != 2 {
		t.Errorf("an image differs from itself: %+v", same)
	}
}

// Nothing that a file says of itself is more than a few words.
func FuzzContent(f *testing.F) {
	f.Add("lib64/libc.so.6", "GNU C Library version 2.36")
	f.Add("lib/ld-musl-x86_64.so.1", "\x001.2.5\x00")
	f.Add("etc/os-release", "PRETTY_NAME=x")
	f.Fuzz(func(t *testing.T, name, text string) {
		switch name {
		case "lib64/libc.so.6", "lib/ld-musl-x86_64.so.1", "etc/os-release":
		default:
			t.Skip("not a file that is looked into")
		}
		r := report(t, imagetest.Archive(t, file(name, text)))
		for _, l := range r.Libc {
			if len(l.Version) > 40 {
				t.Errorf("a version of %d bytes", len(l.Version))
			}
		}
		if len(r.System) > 400 {
			t.Errorf("a system of %d bytes", len(r.System))
		}
		if _, err := json.Marshal(inspect.Compare([]*inspect.Report{r})); err != nil {
			t.Error(err)
		}
	})
}

// A file that is called like a C library is searched once, and few of them.
func TestLibrariesAreBounded(t *testing.T) {
	entries := []entry{file("lib/ld-musl-0", strings.Repeat("\x001.2.", 1<<20))}
	for n := range 3000 {
		entries = append(entries, hardlink(fmt.Sprint("lib/ld-musl-0-", n), "lib/ld-musl-0"))
	}
	began := time.Now()
	r := report(t, imagetest.Archive(t, entries...))
	if took := time.Since(began); took > 30*time.Second || len(r.Notes) > 0 {
		t.Errorf("one file of many names took %v; notes %q", took, r.Notes)
	}
	entries = nil
	for n := range 100 {
		entries = append(entries, file(fmt.Sprint("lib/ld-musl-", n), fmt.Sprintf("\x001.2.%d\x00", n)))
	}
	if r = report(t, imagetest.Archive(t, entries...)); len(r.Libc) != 64 || len(r.Notes) != 1 {
		t.Errorf("%d libraries of 100, notes %q", len(r.Libc), r.Notes)
	}
}
