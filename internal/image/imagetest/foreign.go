package imagetest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Foreign writes an image to a file, as somebody else makes one: it has the agent
// and nothing beside it, and runs it as user 7 of group 8. It returns a reference.
func Foreign(tb testing.TB, agent []byte) string {
	tb.Helper()
	layer := archive(tb, member{"tare-agent", 0o755, agent})
	config := marshal(tb, map[string]any{
		"os": "linux", "architecture": runtime.GOARCH,
		"config": map[string]any{"User": "7:8", "Entrypoint": []string{"/tare-agent"}, "WorkingDir": "/"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	manifest := marshal(tb, []any{map[string]any{"Config": "config.json", "Layers": []string{"layer.tar"}}})
	file := filepath.Join(tb.TempDir(), "foreign.tar")
	text := archive(tb, member{"layer.tar", 0o644, layer}, member{"config.json", 0o644, config}, member{"manifest.json", 0o644, manifest})
	if err := os.WriteFile(file, text, 0o644); err != nil {
		tb.Fatal(err)
	}
	return "tar:" + file
}

// A member is a file in an archive.
type member struct {
	name string
	mode int64
	data []byte
}

func archive(tb testing.TB, members ...member) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		if err := w.WriteHeader(&tar.Header{Name: m.name, Mode: m.mode, Size: int64(len(m.data))}); err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Write(m.data); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func marshal(tb testing.TB, v any) []byte {
	tb.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}
