package bench_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// uncomparable is a writer that == would panic for.
type uncomparable []byte

func (u uncomparable) Write(p []byte) (int, error) { return len(p), nil }

func TestOutputs(t *testing.T) {
	var one, other bytes.Buffer
	for _, tt := range []struct {
		name           string
		stdout, stderr io.Writer
		apart          bool
	}{
		{"nothing", nil, nil, true},
		{"stdout alone", &one, nil, true},
		{"stderr alone", nil, &one, true},
		{"two", &one, &other, true},
		{"one", &one, &one, false},
		{"not comparable", uncomparable{}, uncomparable{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr := bench.Outputs(tt.stdout, tt.stderr)
			as := func(a, b io.Writer) bool { return fmt.Sprintf("%T %p", a, a) == fmt.Sprintf("%T %p", b, b) }
			if apart := as(stdout, tt.stdout) && as(stderr, tt.stderr); apart != tt.apart {
				t.Errorf("Outputs = %T, %T for %T, %T", stdout, stderr, tt.stdout, tt.stderr)
			}
		})
	}
}
