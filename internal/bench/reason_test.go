package bench_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tare-bench/tare/internal/bench"
)

// A reason keeps what was done and, more than that, why it went wrong.
func TestReason(t *testing.T) {
	for _, fill := range []string{"/a/long/path ", "é"} {
		got := bench.Reason(
			"create: runc\n --root " + strings.Repeat(fill, 400) + ": exit status 1:\n no space left on device",
		)
		if !strings.HasPrefix(got, "create: runc --root ") ||
			!strings.HasSuffix(got, ": exit status 1: no space left on device") {
			t.Errorf("%q, want its beginning and its end", got)
		}
		if len(got) > 510 || !utf8.ValidString(got) || strings.Contains(got, "\n") {
			t.Errorf("%d bytes: %q, want one line of at most 510", len(got), got)
		}
	}
	if got := bench.Reason(" short\tand  plain\n"); got != "short and plain" {
		t.Errorf("%q, want it as it is", got)
	}
}

func TestReasonKind(t *testing.T) {
	a := bench.ReasonKind("start: attach 35517d402966: port 80: refused after 12ms")
	if b := bench.ReasonKind("start: attach dabb1a7ee1ba: port 8080: refused after 7ms"); a != b {
		t.Errorf("%q and %q differ in numbers and IDs alone", a, b)
	}
	if b := bench.ReasonKind("start: attach 35517d402966: port 80: closed after 12ms"); a == b {
		t.Errorf("%q is of two kinds", a)
	}
}
