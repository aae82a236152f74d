package imagetest

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/tare-bench/tare/internal/image"
)

// Over writes an image to a file: that of base with more files over its own, and with the given configuration of
// its process. It returns a reference.
func Over(tb testing.TB, base *image.Image, process map[string]any, files ...Entry) string {
	tb.Helper()
	var layers [][]byte
	err := base.EachLayer(tb.Context(), func(archive io.Reader) error {
		layer, err := io.ReadAll(archive)
		layers = append(layers, layer)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	var names, ids []string
	layers = append(layers, Archive(tb, files...))
	for i, layer := range layers {
		names, ids = append(names, fmt.Sprintf("layer%d.tar", i)), append(ids, sum(layer))
	}
	file := filepath.Join(tb.TempDir(), "over.tar")
	f, err := os.Create(file)
	if err != nil {
		tb.Fatal(err)
	}
	w := tar.NewWriter(f)
	for i, layer := range layers {
		err = errors.Join(err, put(w, names[i], layer))
	}
	err = errors.Join(err,
		put(w, "config.json", marshal(tb, map[string]any{
			"os": "linux", "architecture": runtime.GOARCH, "config": process,
			"rootfs": map[string]any{"type": "layers", "diff_ids": ids},
		})),
		put(w, "manifest.json", marshal(tb, []any{map[string]any{"Config": "config.json", "Layers": names}})),
		w.Close(), f.Close())
	if err != nil {
		tb.Fatal(err)
	}
	return "tar:" + file
}

// put adds a file to an archive. Layers are large, and are not copied.
func put(w *tar.Writer, name string, data []byte) error {
	h := File(name, "").header()
	h.Size = int64(len(data))
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}
