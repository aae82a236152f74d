package rpmdb_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/image/rpmdb"
)

// Databases that rpm 4.18 and Berkeley DB 5.3 have made: see testdata/README.md.
func TestRealDatabases(t *testing.T) {
	want := []rpmdb.Package{
		{Name: "libthing", Version: "2:1.4-3", Arch: "x86_64"},
		{Name: "thing-data", Version: "1.0-1", Arch: "noarch"},
	}
	for _, name := range []string{"rpmdb.sqlite", "Packages"} {
		got, err := rpmdb.Packages(unpacked(t, name))
		slices.SortFunc(got, func(a, b rpmdb.Package) int { return strings.Compare(a.Name, b.Name) }) // a hash has an order of its own
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func unpacked(tb testing.TB, name string) []byte {
	tb.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".gz"))
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read from
	r, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// ndbFile is a database as rpm's lib/backend/ndb/rpmpkg.c writes it: a header,
// one page of slots, and blobs with a head and a tail, in blocks of 16 bytes.
func ndbFile(headers ...[]byte) []byte {
	var blobs bytes.Buffer
	slots := make([]byte, 4096)
	put := binary.LittleEndian.PutUint32
	for at := 32; at < len(slots); at += 16 {
		copy(slots[at:], "Slot")
	}
	copy(slots, "RpmP")
	put(slots[12:], 1)
	for i, h := range headers {
		slot, number := slots[32+16*(i+1):], uint32(i+1) // the first one is free
		put(slot[4:], number)
		put(slot[8:], uint32((4096+blobs.Len())/16))
		put(slot[12:], uint32((16+len(h)+12+15)/16))
		head := append([]byte("BlbS"), make([]byte, 12)...)
		put(head[4:], number)
		put(head[12:], uint32(len(h)))
		blobs.Write(head)
		blobs.Write(h)
		blobs.Write(make([]byte, 16-(len(h)+12)%16+8)) // padding, checksum and length
		blobs.WriteString("BlbE")
	}
	return append(slots, blobs.Bytes()...)
}

// header is a package's header as rpm stores it, with something large in it.
func header(name, version string, padding int) []byte {
	values := []string{name, version, "1", "noarch", strings.Repeat("x", padding)}
	var index, store bytes.Buffer
	for i, tag := range []uint32{1000, 1001, 1002, 1022, 1005} {
		for _, n := range []uint32{tag, 6, uint32(store.Len()), 1} {
			_ = binary.Write(&index, binary.BigEndian, n) // a buffer takes everything
		}
		store.WriteString(values[i] + "\x00")
	}
	var b bytes.Buffer
	for _, n := range []uint32{5, uint32(store.Len())} {
		_ = binary.Write(&b, binary.BigEndian, n)
	}
	b.Write(index.Bytes())
	b.Write(store.Bytes())
	return b.Bytes()
}

// Headers of every size, from those that fit into a page to those on many, and
// tables of several levels.
func TestSQLite(t *testing.T) {
	var want []rpmdb.Package
	for n := range 400 {
		want = append(want, rpmdb.Package{Name: fmt.Sprintf("package-%d", n), Version: "1-1", Arch: "noarch"})
	}
	for _, name := range []string{"pages-512.sqlite", "pages-4096.sqlite", "pages-65536.sqlite"} {
		got, err := rpmdb.Packages(unpacked(t, name))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestNDB(t *testing.T) {
	want := []rpmdb.Package{{Name: "a", Version: "1-1", Arch: "noarch"}, {Name: "b", Version: "2-1", Arch: "noarch"}}
	got, err := rpmdb.Packages(ndbFile(header("a", "1", 0), header("gpg-pubkey", "1", 9), header("b", "2", 3000)))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestBroken(t *testing.T) {
	good := unpacked(t, "pages-512.sqlite")
	changed := func(at int, b ...byte) []byte {
		c := bytes.Clone(good)
		copy(c[at:], b)
		return c
	}
	// An interior page that leads to itself.
	loop := bytes.Clone(good)
	for at := 512; at+512 <= len(loop); at += 512 {
		if loop[at] == 5 {
			binary.BigEndian.PutUint32(loop[at+8:], uint32(at/512+1))
		}
	}
	// Cells where a page keeps bytes free.
	free := changed(20, 32)
	for at := 512; at+512 <= len(free); at += 512 {
		if free[at] == 13 {
			binary.BigEndian.PutUint16(free[at+8:], 500)
		}
	}
	for name, file := range map[string][]byte{
		"cells beyond":     free,
		"nothing":          nil,
		"no database":      []byte(strings.Repeat("text ", 100)),
		"only a magic":     []byte("SQLite format 3\x00"),
		"pages of nothing": changed(16, 0, 0),
		"odd pages":        changed(16, 3, 3),
		"all reserved":     changed(20, 255),
		"no table":         unpacked(t, "empty.sqlite")[:512],
		"cut off":          good[:1024],
		"no page":          changed(100, 99),
		"header too short": ndbFile([]byte("short")),
		"header of lies":   ndbFile(bytes.Repeat([]byte{0x7f}, 100)),
		"no name":          ndbFile(make([]byte, 8)),
		"loop":             loop,
		"ndb of lies":      append([]byte("RpmP\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\x7f"), make([]byte, 8192)...),
	} {
		if got, err := rpmdb.Packages(file); !errors.Is(err, rpmdb.ErrBroken) {
			t.Errorf("%s: %d packages, %v, want an error that wraps ErrBroken", name, len(got), err)
		}
	}
}

// No bytes whatever make the reader read outside of them, or without end.
func FuzzPackages(f *testing.F) {
	f.Add(unpacked(f, "rpmdb.sqlite"))
	f.Add(unpacked(f, "Packages"))
	f.Add(ndbFile(header("a", "1", 0), header("b", "2", 3000)))
	f.Add(unpacked(f, "empty.sqlite"))
	f.Fuzz(func(t *testing.T, file []byte) {
		all, err := rpmdb.Packages(file)
		if err != nil && !errors.Is(err, rpmdb.ErrBroken) {
			t.Errorf("error %v, want one that wraps ErrBroken", err)
		}
		for _, p := range all {
			if p.Name == "" || len(p.Name) > 256 {
				t.Errorf("a package named %q", p.Name)
			}
		}
	})
}
