package trace

import (
	"encoding/binary"
	"testing"

	"github.com/tare-bench/tare/internal/kernel/recording"
)

func TestSymbols(t *testing.T) {
	s := parseSymbols([]byte(`0000000000000000 A fixed_percpu_data
ffffffff81000020 t second.isra.0
ffffffff81000010 T first
ffffffff81000010 T first_too
ffffffff81000018 D data
not a line
ffffffffa0000000 t in_module	[nf_tables]
`))
	for address, want := range map[uint64]string{
		0xffffffff8100000f: "", 0xffffffff81000010: "first", 0xffffffff8100001f: "first", 0xffffffff81000020: "second",
		0xffffffffa0000001: "in_module",
	} {
		if got := s.of(address); got != want {
			t.Errorf("%x is in %q, want %q", address, got, want)
		}
	}
	if got := (symbols{}).of(1); got != "" {
		t.Errorf("of no symbols, %q", got)
	}
}

func TestCallNames(t *testing.T) {
	if got := callName(9999); got != "system call 9999" {
		t.Errorf("an unknown call is %q", got)
	}
	seen := map[string]bool{}
	for _, names := range []map[int]string{callNames, olderCallNames} {
		for _, name := range names {
			if seen[name] {
				t.Errorf("two calls are named %s", name)
			}
			seen[name] = true
		}
	}
	if !seen["execve"] || !seen["openat"] {
		t.Error("calls are missing")
	}
}

// What is too short to be an event is none.
func TestForeignEvents(t *testing.T) {
	if _, ok := parseEvent(make([]byte, eventSize-1)); ok {
		t.Error("half an event was taken")
	}
	b := append(make([]byte, eventSize), "ab\xff\x00rest"...)
	binary.NativeEndian.PutUint32(b[offKind:], uint32(recording.Exec))
	e, ok := parseEvent(b)
	if !ok || e.text != "ab\uFFFD" {
		t.Errorf("%v, %q", ok, e.text)
	}
}
