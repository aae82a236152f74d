package imagetest

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
)

// Layered writes an OCI image layout and returns a reference. Its image has three layers, one for
// each way to store them (gzip, uncompressed, zstd). By default it prints "second", because the
// second layer replaces the first one's /etc/kept. The third layer removes the first one's
// /etc/gone.
func Layered(tb testing.TB, agent []byte) string {
	tb.Helper()
	return LayeredWith(tb, agent, runtime.GOARCH,
		map[string]any{"Entrypoint": []string{"/tare-agent"}, "Cmd": []string{"cat", "/etc/kept"}})
}

// LayeredWith is Layered for any architecture and with any configuration of its
// process.
func LayeredWith(tb testing.TB, agent []byte, arch string, process map[string]any) string {
	tb.Helper()
	dir := tb.TempDir()
	first := Archive(tb, program(agent), File("etc/kept", "first"), File("etc/gone", ""))
	second := Archive(tb, File("etc/kept", "second"))
	third := Archive(tb, File("etc/.wh.gone", ""))
	config := blob(tb, dir, types.OCIConfigJSON, marshal(tb, map[string]any{
		"os": "linux", "architecture": arch, "config": process,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{sum(first), sum(second), sum(third)}},
	}))
	manifest := blob(tb, dir, types.OCIManifestSchema1, marshal(tb, v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config,
		Layers: []v1.Descriptor{
			blob(tb, dir, types.OCILayer,
				packed(tb, first, func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriterLevel(w, gzip.BestSpeed) })),
			blob(tb, dir, types.OCIUncompressedLayer, second),
			blob(tb, dir, types.OCILayerZStd,
				packed(tb, third, func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) })),
		},
	}))
	manifest.Platform = &v1.Platform{OS: "linux", Architecture: arch}
	write(tb, filepath.Join(dir, "index.json"),
		marshal(tb, v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{manifest}}))
	write(tb, filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`))
	return "oci:" + dir
}

// Registry serves a layout's image from a registry on loopback until the test ends, and returns a
// reference to it.
func Registry(tb testing.TB, ref string) string {
	tb.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	tb.Cleanup(server.Close)
	repository := strings.TrimPrefix(server.URL, "http://") + "/some/image:1"
	index, err := layout.ImageIndexFromPath(strings.TrimPrefix(ref, "oci:"))
	if err != nil {
		tb.Fatal(err)
	}
	tag, err := name.ParseReference(repository)
	if err != nil {
		tb.Fatal(err)
	}
	if err := remote.WriteIndex(tag, index); err != nil {
		tb.Fatal(err)
	}
	return "docker://" + repository
}

// packed compresses.
func packed(tb testing.TB, b []byte, by func(io.Writer) (io.WriteCloser, error)) []byte {
	tb.Helper()
	var out bytes.Buffer
	w, err := by(&out)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// blob writes content into a layout and describes it.
func blob(tb testing.TB, dir string, kind types.MediaType, b []byte) v1.Descriptor {
	tb.Helper()
	digest, err := v1.NewHash(sum(b))
	if err != nil {
		tb.Fatal(err)
	}
	write(tb, filepath.Join(dir, "blobs", "sha256", digest.Hex), b)
	return v1.Descriptor{MediaType: kind, Digest: digest, Size: int64(len(b))}
}

func sum(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

func write(tb testing.TB, file string, b []byte) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(file, b, 0o644); err != nil {
		tb.Fatal(err)
	}
}
