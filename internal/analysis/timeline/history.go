package timeline

import (
	"cmp"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/kernel/recording"
)

// A history is what the events of a recording say about each thread. Times are since the sample began.
type history struct {
	threads map[int]*thread  // by ID; one that has executed a program in place of its process's first thread has two
	lanes   []lane           // one for each program that was executed, and for each process that was there before
	changes map[int][]change // by process: which lane it belonged to from when on
	exited  map[int]bool     // by process
	stacks  [][]string
	order   []*thread     // all threads by ID
	start   time.Duration // of the recording
	end     time.Duration
}

// A thread is one of a process that was recorded.
type thread struct {
	id, process int
	born        time.Duration
	parent      *thread // which made it; nil if it was there before
	runs        []run   // on a CPU, in order of time
	wakes       []wake  // in order of time
	calls       []call  // that took long enough to be recorded, in order of time; they do not overlap
	groups      []time.Duration

	seen, on bool // of the event that is read: the thread was in one before; it is on a CPU
	since    time.Duration
}

// A run is a time on a CPU, and how it ended.
type run struct {
	from, to  time.Duration
	preempted bool
	stack     int // in which it left the CPU; -1 = unknown
}

// A wake is that the thread was woken.
type wake struct {
	at    time.Duration
	by    *thread // nil if it was not recorded
	name  string  // of the waking thread
	stack int
}

// A call is a system call.
type call struct {
	began, ended time.Duration
	name         string
	family       int // of the socket that it is on; 0 = none, or unknown
}

// A lane is a Lane while it is made.
type lane struct {
	Lane
	began, ended time.Duration // since the sample began
	tare         bool
}

// A change is that a process belongs to another lane from a time on.
type change struct {
	at   time.Duration
	lane int
}

// newHistory reads a recording.
func newHistory(r *recording.Recording) *history {
	h := &history{threads: map[int]*thread{}, changes: map[int][]change{}, exited: map[int]bool{}, stacks: r.Stacks}
	if n := len(r.Events); n > 0 {
		h.start, h.end = min(r.Events[0].At, 0), r.Events[n-1].At
	}
	for _, p := range r.Processes {
		h.changes[p.ID] = []change{{h.start, len(h.lanes)}}
		role, _ := roleOfProgram(p.Name, p.Name)
		h.lanes = append(h.lanes, lane{
			Lane:  Lane{Process: p.ID, Name: p.Name, Role: role, Parent: -1},
			began: h.start, ended: h.start, tare: p.Tare,
		})
		if p.Tare {
			h.lanes[len(h.lanes)-1].Role = roleTare
		}
	}
	for i, p := range r.Processes { // parents can come after their children
		if c := h.changes[p.Parent]; len(c) > 0 && p.Parent != p.ID {
			h.lanes[i].Parent = c[0].lane
		}
	}
	for i := range r.Events {
		h.read(&r.Events[i])
	}
	h.namePrograms()
	for process := range h.changes {
		if !h.exited[process] {
			h.lastLane(process).ended = h.end
		}
	}
	for _, t := range h.threads {
		t.leave(h.end, false, -1)
		slices.SortStableFunc(t.calls, func(a, b call) int { return cmp.Compare(a.began, b.began) })
	}
	h.order = h.inOrder()
	return h
}

// read takes the next event.
func (h *history) read(e *recording.Event) {
	by := h.doer(e)
	switch e.Kind {
	case recording.Fork:
		h.fork(e, by)
	case recording.Exec:
		h.exec(e)
	case recording.Exit:
		if last := h.lastLane(e.Process); last != nil && e.Thread == e.Process {
			last.ended, h.exited[e.Process] = e.At, true // unless another process goes on in it
		}
		if by != nil && e.Text != "" {
			by.returned(e, h.end) // never: whatever follows is part of how the thread ends
		}
	case recording.Switch:
		if by != nil {
			by.leave(e.At, e.Preempted, e.Stack)
		}
		if next := h.thread(e.Other, e.OtherProcess); next != nil {
			next.come(e.At)
		}
	case recording.Wake:
		if woken := h.thread(e.Other, e.OtherProcess); woken != nil {
			woken.seen = true
			woken.wakes = append(woken.wakes, wake{e.At, by, e.Text, e.Stack})
		}
	case recording.Call:
		if by != nil {
			by.returned(e, e.At)
		}
	case recording.Group:
		if by != nil {
			by.groups = append(by.groups, e.At)
		}
	}
}

// doer is the thread that did what an event says, which was on a CPU then; nil if it is not recorded.
func (h *history) doer(e *recording.Event) *thread {
	t := h.thread(e.Thread, e.Process)
	if t == nil || t.on {
		return t
	}
	if !t.seen {
		t.since = h.start
	} else {
		t.since = e.At
	}
	t.seen, t.on = true, true
	return t
}

// thread returns a thread of a recorded process; nil of another one.
func (h *history) thread(id, process int) *thread {
	if len(h.changes[process]) == 0 {
		return nil
	}
	t := h.threads[id]
	if t == nil {
		t = &thread{id: id, process: process}
		h.threads[id] = t
	}
	return t
}

func (h *history) fork(e *recording.Event, by *thread) {
	if by == nil {
		return
	}
	if e.OtherProcess != e.Process { // until it executes a program, it belongs to the same lane
		h.changes[e.OtherProcess] = []change{{e.At, h.laneAt(e.Process, e.At)}}
		delete(h.exited, e.OtherProcess) // one that had the same ID
	}
	h.threads[e.Other] = &thread{id: e.Other, process: e.OtherProcess, born: e.At, parent: by, seen: true}
}

// exec begins a lane. A thread that is not the first of its process becomes it, whose end was not that of the process.
func (h *history) exec(e *recording.Event) {
	if len(h.changes[e.Process]) == 0 {
		return
	}
	if t := h.threads[e.Other]; t != nil && e.Other != e.Thread && t.process == e.Process {
		t.id = e.Thread
		h.threads[e.Thread] = t
		delete(h.exited, e.Process)
	}
	at := h.laneAt(e.Process, e.At)
	before := &h.lanes[at]
	before.ended = e.At // unless another process goes on in it
	name, role := h.executed(e, before)
	h.changes[e.Process] = append(h.changes[e.Process], change{e.At, len(h.lanes)})
	h.lanes = append(h.lanes, lane{
		Lane: Lane{Process: e.Process, Name: name, Role: role, Parent: at}, began: e.At, ended: e.At,
	})
}

// laneAt is the lane to which a process belongs at a time.
func (h *history) laneAt(process int, at time.Duration) int {
	all := h.changes[process]
	i, exact := slices.BinarySearchFunc(all, at, func(c change, at time.Duration) int { return cmp.Compare(c.at, at) })
	if !exact {
		i--
	}
	return all[max(i, 0)].lane
}

// lastLane is the lane to which a process belongs as far as events were read; nil if it is not recorded.
func (h *history) lastLane(process int) *lane {
	all := h.changes[process]
	if len(all) == 0 {
		return nil
	}
	return &h.lanes[all[len(all)-1].lane]
}

// madeBy reports whether a process has started the thread's process, or one that has.
func (t *thread) madeBy(process int) bool {
	for made := t.parent; made != nil && t.process != process; made = made.parent {
		if made.process == process {
			return true
		}
	}
	return false
}

// come is that the thread comes onto a CPU.
func (t *thread) come(at time.Duration) {
	if t.on { // it must have left
		t.leave(at, true, -1)
	}
	t.seen, t.on, t.since = true, true, at
}

// leave is that the thread leaves its CPU.
func (t *thread) leave(at time.Duration, preempted bool, stack int) {
	if t.on {
		t.runs = append(t.runs, run{t.since, at, preempted, stack})
	}
	t.on = false
}

// returned adds a system call that ended at a time. When it began may be of an earlier thread of the same ID.
func (t *thread) returned(e *recording.Event, ended time.Duration) {
	began := max(e.Began, t.born)
	if n := len(t.calls); n > 0 {
		began = max(began, t.calls[n-1].ended)
	}
	if began < ended {
		t.calls = append(t.calls, call{began, ended, e.Text, e.Other})
	}
}

// runBefore returns the last run that began before a time; false if there is none.
func (t *thread) runBefore(at time.Duration) (run, bool) {
	i, _ := slices.BinarySearchFunc(t.runs, at, func(r run, at time.Duration) int { return cmp.Compare(r.from, at) })
	if i == 0 {
		return run{}, false
	}
	return t.runs[i-1], true
}

// isOn reports whether the thread was on a CPU just before a time.
func (t *thread) isOn(at time.Duration) bool {
	r, ok := t.runBefore(at)
	return ok && at <= r.to
}

// lastWake returns the last wake after one time and up to another; false if there is none.
func (t *thread) lastWake(after, upTo time.Duration) (wake, bool) {
	i, exact := slices.BinarySearchFunc(t.wakes, upTo, func(w wake, at time.Duration) int { return cmp.Compare(w.at, at) })
	for exact && i+1 < len(t.wakes) && t.wakes[i+1].at == upTo {
		i++
	}
	if !exact {
		i--
	}
	if i < 0 || t.wakes[i].at <= after {
		return wake{}, false
	}
	return t.wakes[i], true
}

// callAt returns the system call in which the thread was just before a time; false if it is unknown.
func (t *thread) callAt(at time.Duration) (call, bool) {
	i, _ := slices.BinarySearchFunc(t.calls, at, func(c call, at time.Duration) int { return cmp.Compare(c.began, at) })
	if i == 0 || t.calls[i-1].ended < at {
		return call{}, false
	}
	return t.calls[i-1], true
}

// movesGroup reports whether the thread changed control groups within a call.
func (t *thread) movesGroup(c call) bool {
	return slices.ContainsFunc(t.groups, func(at time.Duration) bool { return c.began <= at && at <= c.ended })
}
