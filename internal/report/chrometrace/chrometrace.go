// Package chrometrace writes timelines in the JSON form of Chrome's trace viewer, which ui.perfetto.dev
// opens: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. One trial of each
// cell has a track for its critical path, a track for each thread, and an arrow wherever the path goes from one
// thread to another. All of them begin at 0.
//
// Perfetto wants the slices of a track to nest: one lies in another as a whole, or they do not touch.
package chrometrace

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/analysis/timeline"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
)

// An event is one of traceEvents. Names of fields are the format's.
type event struct {
	Phase    string         `json:"ph"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	At       json.Number    `json:"ts,omitempty"`  // µs
	Duration json.Number    `json:"dur,omitempty"` // µs
	ID       int            `json:"id,omitempty"`
	Bind     string         `json:"bp,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// The phases of events.
const (
	complete  = "X" // a slice
	metadata  = "M"
	flowBegin = "s"
	flowEnd   = "f"
	enclosing = "e" // an arrow ends at the slice that is there, not at the next one
)

// errNothing is the error of timelines without a complete one.
var errNothing = errors.New("no traced trial is complete")

// Write writes the typical trial of each cell.
func Write(w io.Writer, plan *bench.Plan, r *timeline.Result) error {
	t := &tracer{w: bufio.NewWriter(w), process: 1, flow: 1}
	t.text(`{"displayTimeUnit":"ms","traceEvents":[`)
	written := false
	for i := range r.Cells {
		c := &r.Cells[i]
		if plan.Cells[c.Cell].Control || c.Typical < 0 || c.Typical >= len(c.Timelines) {
			continue
		}
		written = true
		t.timeline(plain.Line(plan.Cells[c.Cell].FullName()), &c.Timelines[c.Typical])
	}
	t.text("\n]}\n")
	if t.err == nil && !written {
		return errNothing
	}
	if t.err != nil {
		return t.err
	}
	return t.w.Flush()
}

// A tracer writes events; it remembers the first error.
type tracer struct {
	w       *bufio.Writer
	err     error
	begun   bool // an event is written
	process int  // the next ID
	flow    int  // the next ID
}

func (t *tracer) text(s string) {
	if t.err == nil {
		_, t.err = t.w.WriteString(s)
	}
}

func (t *tracer) add(e event) {
	b, err := json.Marshal(e)
	if err != nil && t.err == nil {
		t.err = err
	}
	if t.begun {
		t.text(",")
	}
	t.begun = true
	t.text("\n" + string(plain.JSON(b)))
}

// timeline writes one trial: the path, the processes, the arrows.
func (t *tracer) timeline(cell string, tl *timeline.Timeline) {
	path := t.process
	first := path + 1 // the process of the first lane
	t.process = first + len(tl.Lanes)
	t.name(path, "process_name", 0, cell+": critical path")
	t.name(path, "thread_name", 0, "trial "+strconv.Itoa(tl.Trial.Seq))
	t.order(path)
	for _, s := range nest(pathTiles(tl), spanOf(tl), laneOf(tl)) {
		t.slice(path, 0, &s)
	}
	for i := range tl.Lanes {
		l := &tl.Lanes[i]
		tracks := threads(tl, i)
		if len(tracks) == 0 {
			continue
		}
		t.name(first+i, "process_name", 0, cell+": "+laneName(l))
		t.order(first + i)
		for _, track := range tracks {
			t.name(first+i, "thread_name", track.id, "thread "+strconv.Itoa(track.id))
			for _, s := range nest(track.tiles, classOf) {
				t.slice(first+i, track.id, &s)
			}
		}
	}
	t.arrows(first, tl)
}

// name names a process or a thread.
func (t *tracer) name(process int, what string, thread int, name string) {
	t.add(event{
		Phase: metadata, Process: process, Thread: thread, Name: what, Args: map[string]any{"name": name},
	})
}

// order keeps processes in the order of their numbers.
func (t *tracer) order(process int) {
	t.add(event{
		Phase: metadata, Process: process, Name: "process_sort_index", Args: map[string]any{"sort_index": process},
	})
}

// slice writes a slice and, after it, those that lie in it.
func (t *tracer) slice(process, thread int, s *slice) {
	t.add(event{
		Phase: complete, Process: process, Thread: thread, Name: cmp.Or(s.name, "other"), Category: s.category,
		At: micros(s.at), Duration: micros(s.end - s.at), Args: s.args,
	})
	for i := range s.inner {
		t.slice(process, thread, &s.inner[i])
	}
}

// arrows leads from thread to thread along the path, from the last instant of one tile to the first of the next.
func (t *tracer) arrows(first int, tl *timeline.Timeline) {
	for i := 1; i < len(tl.Tiles); i++ {
		from, to := &tl.Tiles[i-1], &tl.Tiles[i]
		if !known(tl, from) || !known(tl, to) || from.Lane == to.Lane && from.Thread == to.Thread {
			continue
		}
		t.add(event{
			Phase: flowBegin, Process: first + from.Lane, Thread: from.Thread, Name: "next on the path", Category: "path",
			At: micros(max(from.End()-1, from.At)), ID: t.flow,
		})
		t.add(event{
			Phase: flowEnd, Process: first + to.Lane, Thread: to.Thread, Name: "next on the path", Category: "path",
			At: micros(to.At), ID: t.flow, Bind: enclosing,
		})
		t.flow++
	}
}

// known reports whether a tile belongs to a lane that there is.
func known(tl *timeline.Timeline, x *timeline.Tile) bool {
	return x.Lane >= 0 && x.Lane < len(tl.Lanes)
}

// micros writes a time in microseconds, to the nanosecond.
func micros(d time.Duration) json.Number {
	return json.Number(strconv.FormatFloat(float64(d.Nanoseconds())/1e3, 'f', 3, 64))
}
