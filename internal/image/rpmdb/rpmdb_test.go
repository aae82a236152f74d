package rpmdb_test

import (
	"bytes"
	"compress/gzip"
	"database/sql"
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
	_ "modernc.org/sqlite" // makes a database as rpm does

	"github.com/tare-bench/tare/internal/image/rpmdb"
)

// Databases that rpm 4.18 and Berkeley DB 5.3 have made: see testdata/README.md.
// The one of ndb holds the same headers.
func TestRealDatabases(t *testing.T) {
	want := []rpmdb.Package{
		{Name: "libthing", Version: "2:1.4-3", Arch: "x86_64"},
		{Name: "thing-data", Version: "1.0-1", Arch: "noarch"},
	}
	for _, name := range []string{"rpmdb.sqlite", "Packages", "ndb"} {
		file := realNDB
		if name != "ndb" {
			file = func(tb testing.TB) []byte { return unpacked(tb, name) }
		}
		got, err := rpmdb.Packages(file(t))
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

// realNDB holds the headers of the other databases.
func realNDB(tb testing.TB) []byte {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "rpmdb.sqlite")
	if err := os.WriteFile(file, unpacked(tb, "rpmdb.sqlite"), 0o600); err != nil {
		tb.Fatal(err)
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = db.Close() }() // only read from
	rows, err := db.Query("SELECT blob FROM Packages ORDER BY hnum")
	if err != nil {
		tb.Fatal(err)
	}
	var headers [][]byte
	for rows.Next() {
		var b []byte
		if err := rows.Scan(&b); err != nil {
			tb.Fatal(err)
		}
		headers = append(headers, b)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		tb.Fatal(err)
	}
	return ndbFile(headers...)
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

// sqliteFile is a database with the given headers, on pages of a size.
func sqliteFile(tb testing.TB, page int, headers ...[]byte) []byte {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "rpmdb.sqlite")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		tb.Fatal(err)
	}
	for _, statement := range []string{
		fmt.Sprintf("PRAGMA page_size = %d", page), "CREATE TABLE other (a TEXT)",
		"CREATE TABLE Packages (hnum INTEGER PRIMARY KEY AUTOINCREMENT, blob BLOB NOT NULL)",
	} {
		if _, err := db.Exec(statement); err != nil {
			tb.Fatal(err)
		}
	}
	tx, err := db.Begin()
	if err != nil {
		tb.Fatal(err)
	}
	for _, h := range headers {
		if _, err := tx.Exec("INSERT INTO Packages (blob) VALUES (?)", h); err != nil {
			tb.Fatal(err)
		}
	}
	if err := errors.Join(tx.Commit(), db.Close()); err != nil {
		tb.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// Headers of every size, from those that fit into a page to those on many, and
// tables of one page and of several levels.
func TestSQLite(t *testing.T) {
	for _, page := range []int{512, 4096, 65536} {
		var headers [][]byte
		var want []rpmdb.Package
		for n := range 400 {
			name := fmt.Sprintf("package-%d", n)
			headers = append(headers, header(name, "1", n*37%9000))
			want = append(want, rpmdb.Package{Name: name, Version: "1-1", Arch: "noarch"})
		}
		headers = append(headers, header("gpg-pubkey", "1", 0))
		got, err := rpmdb.Packages(sqliteFile(t, page, headers...))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("pages of %d: %v (-want +got):\n%s", page, err, diff)
		}
	}
}

func TestBroken(t *testing.T) {
	good := sqliteFile(t, 512, header("a", "1", 0), header("b", "1", 5000))
	changed := func(at int, b ...byte) []byte {
		c := bytes.Clone(good)
		copy(c[at:], b)
		return c
	}
	// An interior page that leads to itself.
	loop := sqliteFile(t, 512, slices.Repeat([][]byte{header("a", "1", 300)}, 50)...)
	for at := 512; at+512 <= len(loop); at += 512 {
		if loop[at] == 5 {
			binary.BigEndian.PutUint32(loop[at+8:], uint32(at/512+1))
		}
	}
	for name, file := range map[string][]byte{
		"nothing":          nil,
		"no database":      []byte(strings.Repeat("text ", 100)),
		"only a magic":     []byte("SQLite format 3\x00"),
		"pages of nothing": changed(16, 0, 0),
		"odd pages":        changed(16, 3, 3),
		"all reserved":     changed(20, 255),
		"no table":         sqliteFile(t, 512)[:512],
		"cut off":          good[:1024],
		"no page":          changed(100, 99),
		"header too short": sqliteFile(t, 512, []byte("short")),
		"header of lies":   sqliteFile(t, 512, bytes.Repeat([]byte{0x7f}, 100)),
		"no name":          sqliteFile(t, 512, make([]byte, 8)),
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
	f.Add(sqliteFile(f, 512, header("a", "1", 0), header("b", "2", 3000)))
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
