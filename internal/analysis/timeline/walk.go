package timeline

import (
	"cmp"
	"slices"
	"time"
)

// A walker follows the causes of one stage back in time, from its end to its beginning.
//
// At each moment it is at one thread. If that thread ran, it goes back to where the run began. If it waited
// for a CPU, it goes back to where that began. If it was blocked until another recorded thread woke it, the
// time belongs to what the waker did, as far back as the blocked thread had slept: then it is at that thread
// again. A thread that had just been made leads to the one that made it.
type walker struct {
	h     *history
	tiles []Tile // from the last to the first; At is since the sample began
	at    *thread
	now   time.Duration
	bound time.Duration // to which the present thread is followed
	polls bool          // tare looks from time to time at what the others have done

	sleepers []sleeper // those that wait for the present thread, the innermost last
}

// A sleeper is a thread that had slept since some time.
type sleeper struct {
	thread *thread
	bound  time.Duration // to which it is followed in turn
}

// path returns the tiles between two times that led to where a thread was at the end, in order of time. They
// leave no gap. At is since the sample began. Polled says that tare looked whether the end had come.
func (h *history) path(end *thread, from, to time.Duration, polled bool) []Tile {
	w := &walker{h: h, at: end, now: to, bound: from, polls: polled}
	most := 16
	for _, t := range h.threads { // each step uses up something of a thread, unless times are equal
		most += 4 * (len(t.runs) + len(t.wakes) + 1)
	}
	for w.now > from && most > 0 {
		w.step()
		most--
	}
	if w.now > from { // only events that no kernel writes
		w.bound = from
		w.add(from, Tile{Kind: Unknown, Class: Other})
	}
	slices.Reverse(w.tiles)
	return joined(w.tiles)
}

// step goes back by one piece.
func (w *walker) step() {
	if w.now <= w.bound && len(w.sleepers) > 0 {
		last := w.sleepers[len(w.sleepers)-1]
		w.sleepers = w.sleepers[:len(w.sleepers)-1]
		w.at, w.bound = last.thread, last.bound
		return
	}
	r, ran := w.at.runBefore(w.now)
	switch {
	case ran && w.now <= r.to:
		w.onCPU(r.from)
	case ran:
		w.off(r.to, &r)
	case w.at.parent != nil:
		w.add(w.at.born, Tile{Kind: Ready, Class: Code})
		if w.now == w.at.born {
			w.at = w.at.parent
		}
	default:
		w.off(w.h.start, nil)
	}
}

// off explains why a thread that came onto a CPU now was on none since a time. Before is the run before; nil
// if there is none.
func (w *walker) off(since time.Duration, before *run) {
	woken, ok := w.at.lastWake(since, w.now)
	switch {
	case before == nil && !ok:
		w.add(since, Tile{Kind: Unknown, Class: Other})
		return
	case !ok || before != nil && before.preempted:
		w.add(since, Tile{Kind: Ready, Class: Code})
		return
	}
	w.add(woken.at, Tile{Kind: Ready, Class: Code})
	if w.now != woken.at || w.now <= w.bound {
		return // the bound was reached
	}
	waker, stack := woken.by, -1
	if before != nil {
		stack = before.stack
	}
	if waker == nil || waker == w.at || w.h.interrupts(woken, stack) || !waker.isOn(woken.at) {
		w.slept(since, woken, stack)
		return
	}
	w.sleepers = append(w.sleepers, sleeper{w.at, w.bound})
	w.at, w.bound = waker, max(since, w.bound)
}

// slept explains the time until something other than a recorded thread woke the present one.
//
// Whoever sleeps for a time and then wakes the next one has looked around, such as the monitor of the Go runtime, or
// a thread that waits for a file and a timer. It wakes for what it has seen, which is what others did: so it keeps
// only the time after that. Who just slept keeps all of it, because no others did anything.
func (w *walker) slept(since time.Duration, woken wake, stack int) {
	class, reason := w.h.waited(w.at, since, stack, woken)
	var seen *thread
	from := max(since, w.bound)
	if (len(w.sleepers) > 0 || w.polling(woken.at)) && class == Timers && w.h.interrupts(woken, stack) {
		seen, from = w.seen(from, woken.at)
	}
	w.add(from, Tile{Kind: Waiting, Class: class, Reason: reason, Stack: w.h.stack(stack)})
	if seen != nil {
		w.at = seen
	}
}

// polling reports whether the present thread is of tare, which looks from time to time whether the end has come.
func (w *walker) polling(at time.Duration) bool {
	_, lane := w.h.laneBefore(w.at.process, at)
	return w.polls && w.h.lanes[lane].tare
}

// seen finds what others did last between two times, and until when: other threads of the present one's process, and
// programs that it has started. Where tare polls, it is programs that were started in the trial, such as the one in
// the container. It is nil if none of them ran.
func (w *walker) seen(from, to time.Duration) (last *thread, until time.Duration) {
	until = from
	polling := w.polling(to)
	for _, t := range w.h.order {
		switch {
		case t == w.at, polling && !w.h.isNew(t, to):
			continue
		case !polling && t.process != w.at.process && !t.madeBy(w.at.process):
			continue
		}
		if r, ok := t.runBefore(to); ok && min(r.to, to) > until {
			last, until = t, min(r.to, to)
		}
	}
	return last, until
}

// isNew reports whether a thread executes a program that was started in the trial.
func (h *history) isNew(t *thread, at time.Duration) bool {
	_, lane := h.laneBefore(t.process, at)
	return !h.lanes[lane].tare && h.lanes[lane].began > h.start
}

// onCPU adds what the thread did on its CPU since a time: a tile for each system call and for its own code
// between them.
func (w *walker) onCPU(since time.Duration) {
	since = max(since, w.bound)
	for w.now > since {
		c, in := w.at.callAt(w.now)
		if in {
			class := c.class()
			if w.at.movesGroup(c) {
				class = Groups
			}
			w.add(max(c.began, since), Tile{Kind: InCall, Class: class, Reason: c.name})
			continue
		}
		from := since
		if i, _ := slices.BinarySearchFunc(w.at.calls, w.now, func(c call, at time.Duration) int {
			return cmp.Compare(c.began, at)
		}); i > 0 {
			from = max(from, w.at.calls[i-1].ended)
		}
		w.add(from, Tile{Kind: OnCPU, Class: Code})
	}
}

// add adds a tile of the present thread, from a time until now, but not before the bound; and goes back to
// where it begins. The tile is cut where the process has executed a program.
func (w *walker) add(from time.Duration, t Tile) {
	from = max(from, w.bound)
	t.Thread = w.at.id
	for w.now > from {
		cut, lane := w.h.laneBefore(w.at.process, w.now)
		t.Lane, t.At = lane, max(from, cut)
		t.Duration = w.now - t.At
		w.tiles = append(w.tiles, t)
		w.now = t.At
	}
}

// laneBefore is the lane of a process just before a time, and since when it belongs to it.
func (h *history) laneBefore(process int, at time.Duration) (since time.Duration, lane int) {
	all := h.changes[process]
	i, _ := slices.BinarySearchFunc(all, at, func(c change, at time.Duration) int { return cmp.Compare(c.at, at) })
	if i <= 1 {
		return h.start - 1, all[0].lane // whatever it was before
	}
	return all[i-1].at, all[i-1].lane
}

// joined joins neighbours that differ in nothing but their times.
func joined(tiles []Tile) []Tile {
	var all []Tile
	for _, t := range tiles {
		if n := len(all); n > 0 && sameWork(&all[n-1], &t) {
			all[n-1].Duration += t.Duration
			continue
		}
		all = append(all, t)
	}
	return all
}

func sameWork(a, b *Tile) bool {
	return a.Lane == b.Lane && a.Thread == b.Thread && a.Kind == b.Kind && a.Class == b.Class && a.Reason == b.Reason &&
		slices.Equal(a.Stack, b.Stack)
}
