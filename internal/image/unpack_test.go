package image_test

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// rootfs resolves and unpacks an image.
func rootfs(tb testing.TB, lib *image.Library, ref string) (string, error) {
	tb.Helper()
	img, err := lib.Resolve(tb.Context(), ref)
	if err != nil {
		return "", err
	}
	return img.Rootfs(tb.Context())
}

// tree describes every file below root, one per line.
func tree(tb testing.TB, root string) []string {
	tb.Helper()
	lines := []string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || file == root {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		switch d.Type() {
		case fs.ModeSymlink:
			to, err := os.Readlink(file)
			lines = append(lines, name+" -> "+to)
			return err
		case fs.ModeDir:
			lines = append(lines, name+"/")
			return nil
		default:
			b, err := os.ReadFile(file)
			lines = append(lines, name+": "+string(b))
			return err
		}
	})
	if err != nil {
		tb.Fatal(err)
	}
	return lines
}

func TestUnpack(t *testing.T) {
	for _, test := range []struct {
		name   string
		layers [][]entry
		want   []string
	}{
		{"files and directories", [][]entry{{dir("."), dir("./a"), file("./a/b", "x"), file("c/d/e", "y")}}, []string{"a/", "a/b: x", "c/", "c/d/", "c/d/e: y"}},
		{"upper file replaces", [][]entry{{file("a", "1")}, {file("a", "2")}}, []string{"a: 2"}},
		{"file replaces directory", [][]entry{{file("a/b", "1")}, {file("a", "2")}}, []string{"a: 2"}},
		{"directory replaces file", [][]entry{{file("a", "1")}, {dir("a"), file("a/b", "2")}}, []string{"a/", "a/b: 2"}},
		{"directory keeps what is in it", [][]entry{{file("a/b", "1")}, {dir("a"), file("a/c", "2")}}, []string{"a/", "a/b: 1", "a/c: 2"}},
		{"directory replaces link", [][]entry{{dir("x"), symlink("a", "x")}, {dir("a"), file("a/b", "2")}}, []string{"a/", "a/b: 2", "x/"}},
		{"file replaces link, not its target", [][]entry{{file("x", "1"), symlink("a", "x")}, {file("a", "2")}}, []string{"a: 2", "x: 1"}},
		{
			"into a linked directory",
			[][]entry{{dir("usr/lib"), symlink("lib", "usr/lib")}, {file("lib/a", "1")}},
			[]string{"lib -> usr/lib", "usr/", "usr/lib/", "usr/lib/a: 1"},
		},
		{"links are kept as they are", [][]entry{
			{symlink("a", "/etc/passwd"), symlink("b", "../../x"), symlink("c", "nowhere")},
		}, []string{"a -> /etc/passwd", "b -> ../../x", "c -> nowhere"}},
		{"hard link", [][]entry{{file("a", "1"), hardlink("d/b", "./a")}}, []string{"a: 1", "d/", "d/b: 1"}},
		{"hard link to a lower layer", [][]entry{{file("a", "1")}, {hardlink("b", "a")}}, []string{"a: 1", "b: 1"}},
		{"upper file does not write through a hard link", [][]entry{{file("a", "1"), hardlink("b", "a")}, {file("b", "2")}}, []string{"a: 1", "b: 2"}},
		{"white-out", [][]entry{{file("d/a", "1"), file("d/b", "1")}, {file("d/.wh.a", "")}}, []string{"d/", "d/b: 1"}},
		{"white-out of a directory", [][]entry{{file("d/a/x", "1"), file("d/b", "1")}, {file("d/.wh.a", "")}}, []string{"d/", "d/b: 1"}},
		{"white-out of nothing", [][]entry{{file("a", "1")}, {file(".wh.b", ""), file("no/.wh.b", "")}}, []string{"a: 1"}},
		{"white-out spares its own layer", [][]entry{{file("a/old", "1")}, {file("a/new", "2"), file(".wh.a", "")}}, []string{"a/", "a/new: 2"}},
		{"white-out below a link is of its target", [][]entry{{file("x/a", "1"), symlink("l", "x")}, {file("l/.wh.a", "")}}, []string{"l -> x", "x/"}},
		{"opaque, before", [][]entry{{file("d/a", "1"), file("d/s/b", "1")}, {file("d/.wh..wh..opq", ""), file("d/s/c", "2")}}, []string{"d/", "d/s/", "d/s/c: 2"}},
		{"opaque, after", [][]entry{{file("d/a", "1"), file("d/s/b", "1")}, {file("d/s/c", "2"), file("d/.wh..wh..opq", "")}}, []string{"d/", "d/s/", "d/s/c: 2"}},
		{"opaque root", [][]entry{{file("a", "1"), file("d/b", "1")}, {file(".wh..wh..opq", ""), file("c", "2")}}, []string{"c: 2"}},
		{"opaque nowhere", [][]entry{{file("a", "1")}, {file("a/.wh..wh..opq", ""), file("no/.wh..wh..opq", "")}}, []string{"a: 1"}},
		{"book-keeping", [][]entry{{file(".wh..wh.plnk", ""), file("a", "1")}}, []string{"a: 1"}},
		{"three layers", [][]entry{{file("a", "1")}, {file(".wh.a", "")}, {file("a", "3")}}, []string{"a: 3"}},
		{"no layers", nil, []string{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var layers [][]byte
			for _, entries := range test.layers {
				layers = append(layers, imagetest.Archive(t, entries...))
			}
			dir, err := rootfs(t, image.NewLibrary(t.TempDir()), saved(t, layers...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, tree(t, dir)); diff != "" {
				t.Errorf("files differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnpackRefuses(t *testing.T) {
	for _, test := range []struct {
		name    string
		entries []entry
		says    string // what the error must name
	}{
		{"parent", []entry{file("../canary", "x")}, "../canary"},
		{"parent, deep", []entry{file("a/b/../../../canary", "x")}, "a/b/../../../canary"},
		{"parent, harmless", []entry{file("a/../b", "x")}, "a/../b"},
		{"absolute", []entry{file("/canary", "x")}, "/canary"},
		{"parent directory", []entry{{Kind: tar.TypeDir, Name: ".."}}, ".."},
		{"through an absolute link", []entry{symlink("l", "/tmp"), file("l/canary", "x")}, "l/canary"},
		{"through a relative link", []entry{symlink("l", "../.."), file("l/canary", "x")}, "l/canary"},
		{"directory through a link", []entry{symlink("l", "../.."), dir("l/canary")}, "l/canary"},
		{"through two links", []entry{symlink("l", ".."), symlink("m", "l/.."), file("m/canary", "x")}, "m/canary"},
		{"link through a link", []entry{symlink("l", "../.."), symlink("l/canary", "x")}, "l/canary"},
		{"white-out through a link", []entry{symlink("l", "../.."), file("l/.wh.canary", "")}, "l/.wh.canary"},
		{"opaque through a link", []entry{symlink("l", "../.."), file("l/x/.wh..wh..opq", "")}, "l/x/.wh..wh..opq"},
		{"white-out of the parent", []entry{file(".wh...", "")}, ".wh..."},
		{"white-out of itself", []entry{file("a/.wh..", "")}, "a/.wh.."},
		{"white-out of nothing", []entry{file("a/.wh.", "")}, "a/.wh."},
		{"hard link to the parent", []entry{hardlink("a", "../canary")}, "../canary"},
		{"hard link to an absolute path", []entry{hardlink("a", "/etc/passwd")}, "/etc/passwd"},
		{"hard link through a link", []entry{symlink("l", "../.."), hardlink("a", "l/canary")}, `"a"`},
		{"hard link to nothing", []entry{hardlink("a", "b")}, `"a"`},
		{"root as a file", []entry{file(".", "x")}, `"."`},
		{"link loop", []entry{symlink("l", "l"), file("l/a", "x")}, "l/a"},
		{"character device", []entry{{Kind: tar.TypeChar, Name: "dev/null"}}, "dev/null"},
		{"block device", []entry{{Kind: tar.TypeBlock, Name: "dev/vda"}}, "dev/vda"},
		{"FIFO", []entry{{Kind: tar.TypeFifo, Name: "run/pipe"}}, "run/pipe"},
		{"unknown kind", []entry{{Kind: 'Z', Name: "strange"}}, "strange"},
		{"name too long for the kernel", []entry{file(strings.Repeat("x", 256), "x")}, "xxx"},
		{"path too deep", []entry{file(strings.Repeat("x/", 300)+"x", "x")}, "deeper than"},
		{"path too long", []entry{file(strings.Repeat("x/", 2100)+"x", "x")}, "longer than"},
		{"link target too long", []entry{symlink("l", strings.Repeat("x/", 2100))}, "longer than"},
		{"owner too large", []entry{{Kind: tar.TypeReg, Name: "a", UID: 1 << 32}}, "4294967296"},
		{"owner none", []entry{{Kind: tar.TypeReg, Name: "a", GID: 1<<32 - 1}}, "4294967295"},
	} {
		t.Run(test.name, func(t *testing.T) {
			base := t.TempDir()
			canary := filepath.Join(base, "images", "canary")
			writeCanary(t, canary)
			_, err := rootfs(t, image.NewLibrary(base), saved(t, imagetest.Archive(t, test.entries...)))
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want one that names %q", err, test.says)
			}
			// Nothing was unpacked and nothing around it was touched.
			if diff := cmp.Diff([]string{"images/", "images/canary: alive"}, tree(t, base)); diff != "" {
				t.Errorf("files differ (-want +got):\n%s", diff)
			}
		})
	}
}

// writeCanary puts a file where an unpacker that follows links would reach it:
// beside the directory from which a finished root is renamed.
func writeCanary(t *testing.T, file string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("alive"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestUnpackLimits(t *testing.T) {
	big := strings.Repeat("x", 100_000)
	for _, test := range []struct {
		name   string
		limits image.Limits
		layers [][]byte
	}{
		{"bytes in files", image.Limits{Bytes: 150_000}, [][]byte{imagetest.Archive(t, file("a", big)), imagetest.Archive(t, file("a", big))}},
		{"bytes between files", image.Limits{Bytes: 50_000}, [][]byte{append(imagetest.Archive(t), make([]byte, 100_000)...)}},
		{"entries", image.Limits{Entries: 2}, [][]byte{imagetest.Archive(t, file("a", ""), file("b", "")), imagetest.Archive(t, file("c", ""))}},
		{"path", image.Limits{Path: 3}, [][]byte{imagetest.Archive(t, file("abcd", ""))}},
		{"size in a header", image.Limits{Bytes: 1 << 30}, [][]byte{hugeHeader(t)}},
		{"sparse file", image.Limits{Bytes: 1 << 30}, [][]byte{sparse(t)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			lib := image.NewLibrary(t.TempDir(), image.WithLimits(test.limits))
			if _, err := rootfs(t, lib, saved(t, test.layers...)); !errors.Is(err, image.ErrHostile) {
				t.Errorf("error %v, want one that wraps ErrHostile", err)
			}
		})
	}
}

// claimed is the most that the classic size field holds: 8 GiB less a byte.
const claimed = 1<<33 - 1

// octal is the classic form of a number in a header.
func octal(n int64) string { return fmt.Sprintf("%011o\x00", n) }

// hugeHeader is a layer of one file that claims to be huge.
func hugeHeader(t *testing.T) []byte {
	t.Helper()
	return resize(imagetest.Archive(t, file("a", "x")), octal(claimed))
}

// sparse is a layer of one huge file in the old GNU format: a hole, and one
// byte at the end.
func sparse(t *testing.T) []byte {
	t.Helper()
	b := imagetest.Archive(t, file("a", "x"))
	b[156] = tar.TypeGNUSparse
	copy(b[257:], "ustar  \x00")
	copy(b[386:], octal(claimed-1)+octal(1))
	copy(b[483:], octal(claimed))
	return resize(b, octal(1))
}

// resize sets the size field of an archive's first header, and its checksum.
func resize(b []byte, size string) []byte {
	copy(b[124:136], size)
	copy(b[148:156], "        ")
	sum := 0
	for _, c := range b[:512] {
		sum += int(c)
	}
	copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

// A compression bomb is as large as what comes out of it.
func TestUnpackBomb(t *testing.T) {
	bomb := gzipped(t, imagetest.Archive(t, file("zeros", strings.Repeat("\x00", 10_000_000))))
	if len(bomb) > 100_000 {
		t.Fatalf("%d bytes are no bomb", len(bomb))
	}
	c := config(imagetest.Archive(t, file("zeros", strings.Repeat("\x00", 10_000_000))))
	ref := writeTar(t, map[string][]byte{
		"c": marshal(t, c), "l": bomb, "manifest.json": []byte(`[{"Config":"c","Layers":["l"]}]`),
	})
	lib := image.NewLibrary(t.TempDir(), image.WithLimits(image.Limits{Bytes: 1_000_000}))
	if _, err := rootfs(t, lib, ref); !errors.Is(err, image.ErrHostile) {
		t.Errorf("error %v, want one that wraps ErrHostile", err)
	}
	if _, err := rootfs(t, image.NewLibrary(t.TempDir()), ref); err != nil {
		t.Errorf("within the limits: %v", err)
	}
}

func TestUnpackModes(t *testing.T) {
	layer := imagetest.Archive(
		t,
		entry{
			Kind: tar.TypeReg, Name: "setuid", Data: "x", Mode: 0o4755, UID: 0, GID: 7,
			Capability: "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		},
		entry{Kind: tar.TypeDir, Name: "sticky", Mode: 0o1777},
		entry{Kind: tar.TypeDir, Name: "closed", Mode: 0o500, UID: 42},
		file("closed/inside", "x"),
		entry{Kind: tar.TypeSymlink, Name: "link", Link: "setuid", UID: 43},
	)
	dir, err := rootfs(t, image.NewLibrary(t.TempDir()), saved(t, layer))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range []string{".", "setuid", "sticky", "closed", "link"} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		st := info.Sys().(*syscall.Stat_t)
		got = append(got, fmt.Sprintf("%s %v %d:%d", name, info.Mode(), st.Uid, st.Gid))
	}
	u, g := os.Geteuid(), os.Getegid()
	want := []string{
		fmt.Sprintf(". drwxr-xr-x %d:%d", u, g), fmt.Sprintf("setuid -rwxr-xr-x %d:%d", u, g),
		fmt.Sprintf("sticky dtrwxrwxrwx %d:%d", u, g),
		fmt.Sprintf("closed drwx------ %d:%d", u, g), fmt.Sprintf("link Lrwxrwxrwx %d:%d", u, g),
	}
	if u == 0 {
		want = []string{
			". drwxr-xr-x 0:0", "setuid urwxr-xr-x 0:7", "sticky dtrwxrwxrwx 0:0",
			"closed dr-x------ 42:0", "link Lrwxrwxrwx 43:0",
		}
		var value [32]byte
		if n, err := syscall.Getxattr(filepath.Join(dir, "setuid"), "security.capability", value[:]); err != nil || n != 20 {
			t.Errorf("capability of %d bytes, %v, want 20", n, err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("modes and owners differ (-want +got):\n%s", diff)
	}
	info, err := os.Stat(filepath.Join(dir, "setuid"))
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Unix(1_000_000_000, 0); !info.ModTime().Equal(want) {
		t.Errorf("modified at %v, want %v", info.ModTime(), want)
	}
}

// All callers get the same directory, and the work is done once: it would
// have to replace a directory otherwise, which fails.
func TestRootfsIsShared(t *testing.T) {
	base := t.TempDir()
	lib := image.NewLibrary(base)
	// Two references to one image share it too.
	layer := imagetest.Archive(t, file("a", strings.Repeat("x", 1_000_000)))
	refs := []string{saved(t, layer), saved(t, layer)}
	dirs := make([]string, 16)
	var wg sync.WaitGroup
	for n := range dirs {
		wg.Go(func() {
			dir, err := rootfs(t, lib, refs[n%len(refs)])
			if err != nil {
				t.Error(err)
			}
			dirs[n] = dir
		})
	}
	wg.Wait()
	if dirs = slices.Compact(dirs); len(dirs) != 1 {
		t.Errorf("directories %q, want one", dirs)
	}
	images, err := os.ReadDir(filepath.Join(base, "images"))
	if err != nil || len(images) != 1 {
		t.Errorf("%d images unpacked, %v, want 1", len(images), err)
	}
}

func TestRootfsSurvivesTheLibrary(t *testing.T) {
	base := t.TempDir()
	ref := saved(t, imagetest.Archive(t, file("a", "12345")))
	for range 2 {
		img, err := image.NewLibrary(base).Resolve(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := img.Rootfs(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// What a killed process left half unpacked is neither used nor in the way.
func TestRootfsAfterCrash(t *testing.T) {
	base := t.TempDir()
	lib := image.NewLibrary(base)
	img, err := lib.Resolve(t.Context(), saved(t, imagetest.Archive(t, file("a", "whole"))))
	if err != nil {
		t.Fatal(err)
	}
	writeCanary(t, filepath.Join(base, "images", strings.TrimPrefix(img.Digest(), "sha256:")+".123", "rootfs", "a"))
	dir, err := img.Rootfs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a: whole"}, tree(t, dir)); diff != "" {
		t.Errorf("files differ (-want +got):\n%s", diff)
	}
}

func TestRootfsCanceled(t *testing.T) {
	base := t.TempDir()
	img, err := image.NewLibrary(base).Resolve(t.Context(), saved(t, imagetest.Archive(t, file("a", "x"))))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := img.Rootfs(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	// The failure is not kept.
	if _, err := img.Rootfs(t.Context()); err != nil {
		t.Errorf("after a canceled call: %v", err)
	}
}

func TestRootfsVerifiesLayers(t *testing.T) {
	good, bad := imagetest.Archive(t, file("a", "good")), imagetest.Archive(t, file("a", "evil"))
	ref := writeTar(t, map[string][]byte{
		"c": marshal(t, config(good)), "l": bad, "manifest.json": []byte(`[{"Config":"c","Layers":["l"]}]`),
	})
	if _, err := rootfs(t, image.NewLibrary(t.TempDir()), ref); !errors.Is(err, image.ErrDigest) {
		t.Errorf("error %v, want one that wraps ErrDigest", err)
	}
}

// No archive whatever changes anything outside the directory it is unpacked to.
func FuzzRootfs(f *testing.F) {
	f.Add(imagetest.Archive(f, dir("a"), file("a/b", "x"), symlink("l", "../.."), hardlink("h", "a/b"), file(".wh.x", ""),
		file("a/.wh..wh..opq", "")))
	f.Add(
		imagetest.Archive(f, symlink("l", ".."), symlink("m", "l/.."), file("m/canary", "evil"),
			file("../../canary", "evil")),
	)
	f.Add(gzipped(f, imagetest.Archive(f, file("a", "x"))))
	f.Add([]byte("no archive"))
	f.Fuzz(func(t *testing.T, layer []byte) {
		base := t.TempDir()
		writeCanary(t, filepath.Join(base, "images", "canary"))
		lib := image.NewLibrary(base, image.WithLimits(image.Limits{Bytes: 1 << 20, Entries: 1000}))
		dir, err := rootfs(t, lib, saved(t, layer))
		if err == nil {
			if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
				t.Error(err)
			}
		}
		if diff := cmp.Diff([]string{"images/", "images/canary: alive"}, tree(t, base)); diff != "" {
			t.Errorf("files differ (-want +got):\n%s", diff)
		}
	})
}

func BenchmarkRootfs(b *testing.B) {
	agent := imagetest.Agent(b)
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			img, err := image.NewLibrary(b.TempDir(), image.WithAgent(agent)).Resolve(b.Context(), image.Agent)
			if err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			if _, err := img.Rootfs(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("again", func(b *testing.B) {
		lib := image.NewLibrary(b.TempDir(), image.WithAgent(agent))
		if _, err := rootfs(b, lib, image.Agent); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := rootfs(b, lib, image.Agent); err != nil {
				b.Fatal(err)
			}
		}
	})
}
