package trace

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/recording"
)

// A rawEvent is one as a program has written it.
type rawEvent struct {
	time, began         uint64
	kind, number        uint32
	thread, process     uint32
	other, otherProcess uint32
	stack               int32
	text                string
}

// parseEvent reads an event; false if it is none.
func parseEvent(b []byte) (e rawEvent, ok bool) {
	if len(b) < eventSize {
		return e, false
	}
	word := func(at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
	e = rawEvent{
		time: binary.NativeEndian.Uint64(b[offTime:]), began: binary.NativeEndian.Uint64(b[offBegan:]),
		kind: word(offKind), number: word(offNumber), thread: word(offThread), process: word(offProcess),
		other: word(offOther), otherProcess: word(offOtherProc), stack: int32(word(offStack)),
	}
	text, _, _ := bytes.Cut(b[eventSize:], []byte{0})
	e.text = strings.ToValidUTF8(string(text), "\uFFFD")
	return e, true
}

// resolve turns the events of the present trial into its recording: in order of time, with the names of
// functions and system calls.
func (t *Tracer) resolve() error {
	slices.SortStableFunc(t.raw, func(a, b rawEvent) int { return cmp.Compare(a.time, b.time) })
	stacks := map[int32]int{} // keys in the kernel → indices in the recording
	t.present.Events = make([]recording.Event, 0, len(t.raw))
	for _, raw := range t.raw {
		e := recording.Event{
			At: time.Duration(raw.time) - t.began, Kind: recording.Kind(raw.kind),
			Thread: int(raw.thread), Process: int(raw.process), Other: int(raw.other), OtherProcess: int(raw.otherProcess),
			Stack: -1, Text: raw.text,
		}
		switch e.Kind {
		case recording.Call:
			e.Began, e.Text = time.Duration(raw.began)-t.began, callName(int(raw.number))
		case recording.Switch:
			e.Preempted = raw.number != 0
		}
		if (e.Kind == recording.Switch || e.Kind == recording.Wake) && raw.stack >= 0 {
			i, err := t.stack(raw.stack, stacks)
			if err != nil {
				return err
			}
			e.Stack = i
		}
		t.present.Events = append(t.present.Events, e)
	}
	t.raw = nil
	return nil
}

// stack returns the index of a stack in the recording, and adds it if it is new there.
func (t *Tracer) stack(key int32, known map[int32]int) (int, error) {
	if i, ok := known[key]; ok {
		return i, nil
	}
	names, err := t.names()
	if err != nil {
		return -1, err
	}
	var addresses [stackDepth]uint64
	if err := t.kept.stacks.Lookup(uint32(key), &addresses); err != nil {
		return -1, fmt.Errorf("read a stack: %w", err)
	}
	var stack []string
	for _, a := range addresses {
		if a == 0 {
			break
		}
		if name := names.of(a); name != "" && (len(stack) > 0 || !ofTracing(name)) {
			stack = append(stack, name)
		}
	}
	known[key] = len(t.present.Stacks)
	t.present.Stacks = append(t.present.Stacks, stack)
	return known[key], nil
}

// ofTracing reports whether a function is part of what traces, at the inner end of each stack.
func ofTracing(name string) bool {
	return slices.ContainsFunc([]string{"bpf_", "__bpf_", "__traceiter_", "trace_event_", "perf_", "__perf_"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// processesBelow returns some processes and all that they have started, each once.
func processesBelow(roots []int) ([]recording.Process, error) {
	all, err := proc.All("/")
	if err != nil {
		return nil, err
	}
	tree, parent := proc.NewTree(all), map[int]int{}
	for _, p := range all {
		parent[p.PID] = p.Parent
	}
	var found []recording.Process
	seen := map[int]bool{}
	for _, root := range roots {
		for _, pid := range tree.Descendants(root, seen) {
			seen[pid] = true
			found = append(found, recording.Process{
				ID: pid, Parent: parent[pid], Name: programOf(pid), Tare: pid == os.Getpid(),
			})
		}
	}
	return found, nil
}

// programOf is the name of the program that a process runs.
func programOf(pid int) string {
	file, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	if err != nil {
		return proc.Name(pid)
	}
	return strings.ToValidUTF8(filepath.Base(strings.TrimSuffix(file, " (deleted)")), "\uFFFD")
}
