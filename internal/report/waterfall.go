package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/analysis/timeline"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// A Mark is what a process did most in one slot of a waterfall.
type Mark int

// The marks. Those from Runs on are on the critical path.
const (
	Nothing Mark = iota
	Beside       // it ran, but not on the path
	Runs
	InKernel // on a CPU, in a system call
	WaitsForCPU
	Waits
	NotKnown

	markCount
)

// A Waterfall is one traced trial, divided into slots of the same length, so that it can be drawn.
type Waterfall struct {
	Value time.Duration
	Trial int // its position in the run
	Spans []WaterfallSpan
	Lanes []WaterfallLane // in the order in which the processes began
}

// A WaterfallSpan is a part of the time, as slots.
type WaterfallSpan struct {
	Name     string // harmless everywhere
	From, To int    // slots; To is not part of it
}

// A WaterfallLane is a process, or all that have no lane of their own.
type WaterfallLane struct {
	Name   string        // harmless everywhere
	OnPath time.Duration // what it has of the path
	Slots  []Mark
	// Longest are the longest tiles that it has on the path, in words; at most a few.
	Longest []string
}

// NewWaterfall divides a timeline into slots. It has at most so many lanes: the processes that have most of
// the path, and a last one for all the others.
func NewWaterfall(t *timeline.Timeline, slots, lanes int) *Waterfall {
	w := &Waterfall{Value: t.Value, Trial: t.Trial.Seq}
	if t.Value <= 0 || slots < 1 {
		return w
	}
	for _, s := range t.Spans {
		w.Spans = append(w.Spans, WaterfallSpan{plain.Line(s.Name), w.slot(s.At, slots), w.slot(s.At+s.Duration, slots)})
	}
	kept := mostOnPath(t.Lanes, lanes-1)
	counts := make([]slotCount, len(kept)+1) // the last is of all others
	row := make([]int, len(t.Lanes))
	for i := range row {
		row[i] = len(kept)
	}
	for r, lane := range kept {
		row[lane] = r
	}
	for i := range counts {
		counts[i] = newSlotCount(t.Value, slots)
	}
	for i := range t.Tiles {
		if x := &t.Tiles[i]; x.Lane >= 0 && x.Lane < len(row) {
			counts[row[x.Lane]].add(x, markOf(x.Kind))
		}
	}
	for i := range t.Lanes {
		for k := range t.Lanes[i].Beside {
			counts[row[i]].add(&t.Lanes[i].Beside[k], Beside)
		}
	}
	first := leaders(counts, slots)
	for r, lane := range kept {
		l := &t.Lanes[lane]
		w.Lanes = append(w.Lanes, WaterfallLane{laneName(l), l.OnPath, counts[r].choose(r, first), longestTiles(t, lane)})
	}
	if others := othersLane(t, kept); others != nil {
		others.Slots = counts[len(kept)].choose(len(kept), first)
		if slices.Max(others.Slots) != Nothing {
			w.Lanes = append(w.Lanes, *others)
		}
	}
	return w
}

// HasUnknown reports whether something is drawn of which nothing is known.
func (w *Waterfall) HasUnknown() bool {
	return slices.ContainsFunc(w.Lanes, func(l WaterfallLane) bool { return slices.Contains(l.Slots, NotKnown) })
}

// slot is the slot in which an instant lies; the end of all is after the last one.
func (w *Waterfall) slot(at time.Duration, slots int) int {
	return min(max(int(float64(at)/float64(w.Value)*float64(slots)+0.5), 0), slots)
}

// mostOnPath are the lanes that have most of the path, at most n, in their order.
func mostOnPath(lanes []timeline.Lane, n int) []int {
	var all []int
	for i := range lanes {
		if lanes[i].OnPath > 0 {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(lanes[b].OnPath, lanes[a].OnPath) })
	all = all[:min(len(all), max(n, 1))]
	slices.Sort(all)
	return all
}

// othersLane stands for the processes without a lane of their own; nil without any.
func othersLane(t *timeline.Timeline, kept []int) *WaterfallLane {
	n := len(t.Lanes) - len(kept)
	if n == 0 {
		return nil
	}
	out := &WaterfallLane{Name: unit.FormatCount(n, "other process")}
	if n > 1 {
		out.Name = strconv.Itoa(n) + " other processes"
	}
	for i := range t.Lanes {
		if !slices.Contains(kept, i) {
			out.OnPath += t.Lanes[i].OnPath
		}
	}
	return out
}

// laneName is the role of a process, and its program where the role does not say it.
func laneName(l *timeline.Lane) string {
	role, name := plain.Line(string(l.Role)), plain.Line(l.Name)
	switch {
	case role == "":
		role = name
	case name != "" && !strings.Contains(role, name) && !strings.Contains(name, role):
		role += " " + name
	}
	return role
}

// longestTiles are the longest tiles of a lane in words, each with where in the kernel it was.
func longestTiles(t *timeline.Timeline, lane int) (all []string) {
	const most, functions = 4, 3
	var tiles []*timeline.Tile
	for i := range t.Tiles {
		if t.Tiles[i].Lane == lane {
			tiles = append(tiles, &t.Tiles[i])
		}
	}
	slices.SortStableFunc(tiles, func(a, b *timeline.Tile) int { return cmp.Compare(b.Duration, a.Duration) })
	for _, x := range tiles[:min(len(tiles), most)] {
		s := fmt.Sprintf("%s %s", unit.Format(x.Duration.Seconds(), unit.Seconds), TileText(x))
		if n := min(len(x.Stack), functions); n > 0 {
			s += ": " + plain.Line(strings.Join(x.Stack[:n], " ← "))
		}
		all = append(all, s)
	}
	return all
}

// TileText says what a tile is: "waits: storage (fsync)". It is harmless everywhere.
func TileText(x *timeline.Tile) string {
	var named []string
	if reason := plain.Line(x.Reason); reason != "" {
		named = []string{reason}
	}
	return spentOn(x.Kind, x.Class, named)
}

// markOf is how a tile on the path is drawn.
func markOf(k timeline.Kind) Mark {
	switch k {
	case timeline.OnCPU:
		return Runs
	case timeline.InCall:
		return InKernel
	case timeline.Ready:
		return WaitsForCPU
	case timeline.Waiting:
		return Waits
	default:
		return NotKnown
	}
}

// A slotCount is the time that a lane spends in each way in each slot.
type slotCount struct {
	length time.Duration // of all slots
	times  [][markCount]time.Duration
}

func newSlotCount(length time.Duration, slots int) slotCount {
	return slotCount{length, make([][markCount]time.Duration, slots)}
}

// add divides a tile between the slots that it is in. What lies outside of all is left out.
func (c *slotCount) add(x *timeline.Tile, m Mark) {
	from, to := max(x.At, 0), min(x.End(), c.length)
	begin := int(float64(from) / float64(c.length) * float64(len(c.times)))
	for i := begin; i < len(c.times) && from < to; i++ {
		end := min(c.edge(i+1), to)
		if i == len(c.times)-1 {
			end = to
		}
		if end > from {
			c.times[i][m] += end - from
			from = end
		}
	}
}

// edge is where a slot begins.
func (c *slotCount) edge(i int) time.Duration {
	return time.Duration(float64(c.length) / float64(len(c.times)) * float64(i))
}

// onPath is what the lane has of the path in a slot.
func (c *slotCount) onPath(slot int) (sum time.Duration) {
	for _, d := range c.times[slot][Runs:] {
		sum += d
	}
	return sum
}

// leaders are the lanes that have most of the path in each slot.
func leaders(counts []slotCount, slots int) []int {
	out := make([]int, slots)
	for slot := range out {
		for i := range counts {
			if counts[i].onPath(slot) > counts[out[slot]].onPath(slot) {
				out[slot] = i
			}
		}
	}
	return out
}

// choose gives each slot one mark. A lane is on the path in a slot if it has a quarter of it, or more than
// any other lane; a lane that would never be so is once, where it has most.
func (c *slotCount) choose(lane int, leaders []int) []Mark {
	quarter := c.length / time.Duration(4*len(c.times))
	out := make([]Mark, len(c.times))
	best, shown := 0, false
	for i := range out {
		on := c.onPath(i)
		switch {
		case on > 0 && (on >= quarter || leaders[i] == lane):
			out[i], shown = c.most(i), true
		case c.times[i][Beside] >= max(quarter, 1):
			out[i] = Beside
		}
		if on > c.onPath(best) {
			best = i
		}
	}
	if !shown && c.onPath(best) > 0 {
		out[best] = c.most(best)
	}
	return out
}

// most is the mark on the path that takes most of a slot.
func (c *slotCount) most(slot int) Mark {
	best := Runs
	for m := Runs; m < markCount; m++ {
		if c.times[slot][m] > c.times[slot][best] {
			best = m
		}
	}
	return best
}
