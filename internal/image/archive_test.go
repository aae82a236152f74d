package image_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/tare-bench/tare/internal/image/imagetest"
)

// The entries of layers that tests write.
type entry = imagetest.Entry

var file, dir, symlink, hardlink = imagetest.File, imagetest.Dir, imagetest.Symlink, imagetest.Hardlink

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
	if err := os.WriteFile(name, imagetest.Archive(tb, entries...), 0o600); err != nil {
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
