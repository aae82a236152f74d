package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// An entry is one entry of a layer that a test writes. Mode 0 means 0644, or
// 0755 for a directory.
type entry struct {
	kind       byte
	name, link string
	data       string
	mode       int64
	uid, gid   int
	xattr      string // security.capability
}

func file(name, data string) entry   { return entry{kind: tar.TypeReg, name: name, data: data} }
func dir(name string) entry          { return entry{kind: tar.TypeDir, name: name + "/"} }
func symlink(name, to string) entry  { return entry{kind: tar.TypeSymlink, name: name, link: to} }
func hardlink(name, to string) entry { return entry{kind: tar.TypeLink, name: name, link: to} }

// layerTar writes the entries as they are, hostile ones too.
func layerTar(tb testing.TB, entries ...entry) []byte {
	tb.Helper()
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{
			Typeflag: e.kind, Name: e.name, Linkname: e.link, Size: int64(len(e.data)),
			Mode: e.mode, Uid: e.uid, Gid: e.gid, ModTime: time.Unix(1_000_000_000, 0),
		}
		if h.Mode == 0 {
			h.Mode = 0o644
			if e.kind == tar.TypeDir {
				h.Mode = 0o755
			}
		}
		if e.xattr != "" {
			h.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": e.xattr}
		}
		if err := tw.WriteHeader(h); err != nil {
			tb.Fatal(err)
		}
		if _, err := tw.Write([]byte(e.data)); err != nil {
			tb.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		tb.Fatal(err)
	}
	return buf.Bytes()
}

func digest(b []byte) v1.Hash {
	sum := sha256.Sum256(b)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}

func gzipped(tb testing.TB, b []byte) []byte {
	tb.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(b); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return buf.Bytes()
}

func marshal(tb testing.TB, v any) []byte {
	tb.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// config is the configuration of an image of these uncompressed layers.
func config(layers ...[]byte) v1.ConfigFile {
	c := v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH, RootFS: v1.RootFS{Type: "layers"}}
	for _, l := range layers {
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, digest(l))
	}
	return c
}

// saved writes an image as "docker save" does and returns its reference.
func saved(tb testing.TB, layers ...[]byte) string {
	tb.Helper()
	files := map[string][]byte{"config.json": marshal(tb, config(layers...))}
	m := tarball.Descriptor{Config: "config.json"}
	for _, l := range layers {
		name := digest(l).Hex + "/layer.tar"
		files[name] = l
		m.Layers = append(m.Layers, name)
	}
	files["manifest.json"] = marshal(tb, tarball.Manifest{m})
	return writeTar(tb, files)
}

// writeTar writes an archive of files and returns the reference for it.
func writeTar(tb testing.TB, files map[string][]byte) string {
	tb.Helper()
	var entries []entry
	for name, data := range files {
		entries = append(entries, file(name, string(data)))
	}
	name := filepath.Join(tb.TempDir(), "image.tar")
	if err := os.WriteFile(name, layerTar(tb, entries...), 0o600); err != nil {
		tb.Fatal(err)
	}
	return "tar:" + name
}

// writeDir writes files below a new directory and returns the reference for it.
func writeDir(tb testing.TB, files map[string][]byte) string {
	tb.Helper()
	root := tb.TempDir()
	for name, data := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return "oci:" + root
}
