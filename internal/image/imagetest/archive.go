package imagetest

import (
	"archive/tar"
	"bytes"
	"testing"
	"time"
)

// An Entry is one entry of an archive that a test writes, such as a layer. Mode 0
// means 0644, or 0755 for a directory.
type Entry struct {
	Kind       byte
	Name, Link string
	Data       string
	Mode       int64
	UID, GID   int
	Capability string // security.capability
}

// File is an entry of a file; Dir, Symlink and Hardlink are those of the other kinds.
func File(name, data string) Entry { return Entry{Kind: tar.TypeReg, Name: name, Data: data} }

func Dir(name string) Entry          { return Entry{Kind: tar.TypeDir, Name: name + "/"} }
func Symlink(name, to string) Entry  { return Entry{Kind: tar.TypeSymlink, Name: name, Link: to} }
func Hardlink(name, to string) Entry { return Entry{Kind: tar.TypeLink, Name: name, Link: to} }

// Archive writes the entries as they are, hostile ones too.
func Archive(tb testing.TB, entries ...Entry) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if err := w.WriteHeader(e.header()); err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Write([]byte(e.Data)); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func (e Entry) header() *tar.Header {
	h := &tar.Header{
		Typeflag: e.Kind, Name: e.Name, Linkname: e.Link, Size: int64(len(e.Data)),
		Mode: e.Mode, Uid: e.UID, Gid: e.GID, ModTime: time.Unix(1_000_000_000, 0),
	}
	if h.Mode == 0 {
		h.Mode = 0o644
		if e.Kind == tar.TypeDir {
			h.Mode = 0o755
		}
	}
	if e.Capability != "" {
		h.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": e.Capability}
	}
	return h
}
