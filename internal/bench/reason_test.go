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

// A command line is what nobody reads; what, where and why stay.
func TestBriefReason(t *testing.T) {
	const id = "35517d40296648c4a3d689aa032e3a241d3c19e10a14f3f66d83e8a64803badd"
	for _, tt := range []struct{ reason, want string }{
		{
			"create: /usr/sbin/runc --root /var/lib/tare/runs/1 --log-format json create 1: exit status 1: no such file",
			"create: runc …: exit status 1: no such file",
		},
		{
			"given up after 3 failed trials in a row; last failure: exec: /usr/bin/crun exec --cwd / 1 /tare-agent cpu: no",
			"given up after 3 failed trials in a row; last failure: exec: crun …: no",
		},
		{
			"start: podman: attach 35517d402966: preparing container " + id + " for attach",
			"start: podman: attach 35517d402966: preparing container 35517d402966 for attach",
		},
		{"create: /usr/sbin/runc --root /var/lib/tare/ru … file", "create: runc …"},
		{"prepare: native: program /nothing/here: no such file", "prepare: native: program /nothing/here: no such file"},
		{"/dev/sda is full of files of others: remove them", "/dev/sda is full of files of others: remove them"},
		{"/usr/sbin/runc kill -s 9: no", "/usr/sbin/runc kill -s 9: no"},
		{"", ""},
	} {
		if got := bench.BriefReason(tt.reason); got != tt.want {
			t.Errorf("%q is %q, want %q", tt.reason, got, tt.want)
		}
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
