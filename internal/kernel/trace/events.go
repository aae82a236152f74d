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
	stack               int32 // a key, or negative
	text                string
	addresses           *addresses // of a stack without a key; nil = there is none
}

// addresses are a stack, the innermost function first; 0 after the last one.
type addresses [stackDepth]uint64

// textSizes are how many bytes the text after an event has, by its kind.
var textSizes = map[recording.Kind]int{recording.Exec: fileSize, recording.Wake: nameSize}

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
	rest := b[eventSize:]
	n := min(textSizes[recording.Kind(e.kind)], len(rest))
	text, _, _ := bytes.Cut(rest[:n], []byte{0})
	e.text = strings.ToValidUTF8(string(text), "\uFFFD")
	if rest = rest[n:]; len(rest) >= stackSize {
		e.addresses = &addresses{}
		for i := range e.addresses {
			e.addresses[i] = binary.NativeEndian.Uint64(rest[8*i:])
		}
	}
	return e, true
}

// resolve turns the events of the present trial into its recording: in order of time, with the names of
// functions and system calls.
func (t *Tracer) resolve() error {
	slices.SortStableFunc(t.raw, func(a, b rawEvent) int { return cmp.Compare(a.time, b.time) })
	stacks := keptStacks{map[int32]int{}, map[addresses]int{}}
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
		case recording.Exit:
			if raw.began > 0 {
				e.Began, e.Text = time.Duration(raw.began)-t.began, callName(int(raw.number))
			}
		case recording.Switch:
			e.Preempted = raw.number != 0
		}
		if e.Kind == recording.Switch || e.Kind == recording.Wake {
			i, err := t.stack(&raw, stacks)
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

// keptStacks are the indices of stacks in the recording, by their keys in the kernel and by what they are.
type keptStacks struct {
	byKey       map[int32]int
	byAddresses map[addresses]int
}

// stack returns the index of an event's stack in the recording, and adds it if it is new there; -1 without a stack.
func (t *Tracer) stack(e *rawEvent, known keptStacks) (int, error) {
	if i, ok := known.byKey[e.stack]; ok {
		return i, nil
	}
	all := e.addresses
	if e.stack >= 0 {
		all = &addresses{}
		if err := t.kept.stacks.Lookup(uint32(e.stack), all); err != nil {
			return -1, fmt.Errorf("read a stack: %w", err)
		}
	}
	if all == nil {
		return -1, nil
	}
	i, ok := known.byAddresses[*all]
	if !ok {
		var err error
		if i, err = t.addStack(all); err != nil {
			return -1, err
		}
		known.byAddresses[*all] = i
	}
	if e.stack >= 0 {
		known.byKey[e.stack] = i
	}
	return i, nil
}

// addStack adds a stack to the recording, by the names of its functions, and returns its index.
func (t *Tracer) addStack(all *addresses) (int, error) {
	names, err := t.names()
	if err != nil {
		return -1, err
	}
	var stack []string
	for _, a := range all {
		if a == 0 {
			break
		}
		if name := names.of(a); name != "" && (len(stack) > 0 || !ofTracing(name)) {
			stack = append(stack, name)
		}
	}
	t.present.Stacks = append(t.present.Stacks, stack)
	return len(t.present.Stacks) - 1, nil
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
