package imagetest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Foreign writes an image that tare has not made to a file. It contains only the agent, and runs it
// as user 7 of group 8. It returns a reference.
func Foreign(tb testing.TB, agent []byte) string {
	tb.Helper()
	return ForeignOf(tb, agent, "7:8")
}

// ForeignOf is Foreign with another user, whose name may stand in the given files.
func ForeignOf(tb testing.TB, agent []byte, user string, files ...Entry) string {
	tb.Helper()
	layer := Archive(tb, append(files, program(agent))...)
	config := marshal(tb, map[string]any{
		"os": "linux", "architecture": runtime.GOARCH,
		"config": map[string]any{"User": user, "Entrypoint": []string{"/tare-agent"}, "WorkingDir": "/"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	manifest := marshal(tb, []any{map[string]any{"Config": "config.json", "Layers": []string{"layer.tar"}}})
	file := filepath.Join(tb.TempDir(), "foreign.tar")
	text := Archive(tb, File("layer.tar", string(layer)), File("config.json", string(config)),
		File("manifest.json", string(manifest)))
	if err := os.WriteFile(file, text, 0o644); err != nil {
		tb.Fatal(err)
	}
	return "tar:" + file
}

// program is the agent in a layer.
func program(agent []byte) Entry {
	e := File("tare-agent", string(agent))
	e.Mode = 0o755
	return e
}

func marshal(tb testing.TB, v any) []byte {
	tb.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}
