package stdstream_test

import (
	"io"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/engine/stdstream"
)

// However it is filled, also as os/exec does it, no more is kept than is allowed.
func TestFirst(t *testing.T) {
	f := stdstream.First{Limit: 6}
	for _, part := range []string{"runc ", "version", "\n"} {
		if n, err := io.Copy(&f, strings.NewReader(part)); int(n) != len(part) || err != nil {
			t.Fatalf("copying %q: %d, %v", part, n, err)
		}
	}
	if n, err := io.Copy(&f, struct{ io.Reader }{strings.NewReader("more")}); n != 4 || err != nil {
		t.Errorf("copying from no more than a reader: %d, %v", n, err)
	}
	if string(f.Text) != "runc v" {
		t.Errorf("kept %q", f.Text)
	}
}
