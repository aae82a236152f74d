package recording_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/recording"
)

func example() *recording.Recording {
	return &recording.Recording{
		Processes: []recording.Process{{ID: 7, Parent: 1, Name: "tare", Tare: true}, {ID: 9, Parent: 1, Name: "dockerd"}},
		Stacks:    [][]string{{"pipe_read", "vfs_read"}, {"futex_wait"}},
		Lost:      3, NoStack: 2,
		Events: []recording.Event{
			{At: -5, Kind: recording.Fork, Thread: 7, Process: 7, Other: 8, OtherProcess: 8, Stack: -1},
			{At: 0, Kind: recording.Exec, Thread: 8, Process: 8, Other: 8, Stack: -1, Text: "/usr/bin/runc \x1b\n"},
			{At: 10, Kind: recording.Switch, Thread: 8, Process: 8, Stack: 1},
			{At: 11, Kind: recording.Switch, Thread: 7, Process: 7, Preempted: true, Stack: -1},
			{At: 11, Kind: recording.Wake, Thread: 7, Process: 7, Other: 8, OtherProcess: 8, Stack: 0, Text: "tare"},
			{At: 20, Kind: recording.Call, Thread: 8, Process: 8, Other: 16, Began: -4, Stack: -1, Text: "sendto"},
			{At: 21, Kind: recording.Group, Thread: 8, Process: 8, Stack: -1},
			{At: 22, Kind: recording.Exit, Thread: 8, Process: 8, Began: 21, Stack: -1, Text: "exit_group"},
			{At: 23, Kind: recording.Exit, Thread: 9, Process: 8, Stack: -1},
		},
	}
}

func encode(t testing.TB, r *recording.Recording) *bench.Trace {
	t.Helper()
	e, err := recording.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	return &bench.Trace{Events: []bench.TraceEvent{{Name: "stage"}, e}}
}

func TestEncodedComesBack(t *testing.T) {
	for name, want := range map[string]*recording.Recording{
		"events": example(),
		"failed": {Failed: "the kernel refused"},
		"empty":  {Events: []recording.Event{}},
	} {
		got, err := recording.Decode(encode(t, want))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// A recording that no sample could keep is replaced by its reason.
func TestTooLarge(t *testing.T) {
	r := example()
	for i := range 400_000 {
		at := time.Duration(i*i%1_000_003) + r.Events[len(r.Events)-1].At
		r.Events = append(r.Events, recording.Event{At: at, Kind: recording.Exit, Thread: i * 7919 % 1_000_003, Stack: -1})
	}
	trace := encode(t, r)
	if n := trace.Events[1].Size(); n > bench.MaxTraceBytes {
		t.Errorf("%d bytes, at most %d can be kept", n, bench.MaxTraceBytes)
	}
	got, err := recording.Decode(trace)
	if err != nil || !strings.Contains(got.Failed, "too many to be kept") {
		t.Errorf("%v, %v", got, err)
	}
}

func TestNoRecording(t *testing.T) {
	for _, trace := range []*bench.Trace{nil, {}, {Events: []bench.TraceEvent{{Name: "stage"}}}} {
		if _, err := recording.Decode(trace); !errors.Is(err, recording.ErrNone) {
			t.Errorf("%v: %v", trace, err)
		}
	}
}

func TestUnreadable(t *testing.T) {
	for name, attributes := range map[string][]bench.Label{
		"another format": {{Key: "format", Value: "9"}},
		"no base64":      {{Key: "format", Value: "1"}, {Key: "events", Value: "*"}},
		"no gzip":        {{Key: "format", Value: "1"}, {Key: "events", Value: "AAAA"}},
	} {
		trace := &bench.Trace{Events: []bench.TraceEvent{{Name: "recording", Attributes: attributes}}}
		if r, err := recording.Decode(trace); err == nil {
			t.Errorf("%s: read as %v", name, r)
		}
	}
}
