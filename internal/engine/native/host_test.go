package native_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// copyOf makes a program of the test's own.
func copyOf(t *testing.T, program, name string) {
	t.Helper()
	data, err := os.ReadFile(program)
	if err == nil {
		err = os.WriteFile(name, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestImageOfHostProgram runs the program where it is, if it is still what the
// image was made of.
func TestImageOfHostProgram(t *testing.T) {
	e := open(t, enginetest.NewEnv(t, imagetest.Library(t)))
	file := filepath.Join(t.TempDir(), "shell")
	copyOf(t, "/bin/sh", file)
	spec := bench.Spec{Image: "host:" + file, Argv: []string{"shell", "-c", `echo "$0"`}}
	if err := e.Prepare(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	c, err := e.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	enginetest.Printed(t, c, "shell\n", "", true)
	if err := c.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	for _, other := range []string{"sh", "/bin/sh", "/tare-agent"} {
		if _, err := e.Create(t.Context(),
			bench.Spec{Image: spec.Image, Argv: []string{other}}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s, which the image lacks: Create = %v, want fs.ErrNotExist", other, err)
		}
	}
	if err := os.Chmod(file, 0o755|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, enginetest.NewEnv(t, imagetest.Library(t))).Create(t.Context(),
		spec); !errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("set-group-ID: Create = %v, want bench.ErrUnsupported", err)
	}
	copyOf(t, "/bin/cat", file)
	if err := e.Prepare(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("another program is there by now: Prepare = %v, want an error that says so", err)
	}
}
