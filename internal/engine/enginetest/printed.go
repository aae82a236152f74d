package enginetest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// Printed starts a container and checks its output. If output is lost, Wait must fail, and a second
// Wait must return the same.
func Printed(t *testing.T, c bench.Container, stdout, stderr string, whole bool) {
	t.Helper()
	var out, errOut bytes.Buffer
	noError(t, errors.Join(c.Attach(t.Context(), &out, &errOut), c.Start(t.Context())))
	for range 2 {
		if exit, err := c.Wait(t.Context()); (err == nil) != whole || exit != (bench.Exit{}) {
			t.Errorf("Wait = %v, %v; want success %v", exit, err, whole)
		}
	}
	if out.String() != stdout || errOut.String() != stderr {
		t.Errorf("stdout %q, stderr %q; want %q and %q", out.String(), errOut.String(), stdout, stderr)
	}
}
