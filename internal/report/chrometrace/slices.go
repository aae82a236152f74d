package chrometrace

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/analysis/timeline"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
)

// A slice is a stretch of a track, with those that lie in it.
type slice struct {
	name, category string
	at, end        time.Duration
	args           map[string]any
	inner          []slice
}

// A grouping says in which slice a tile lies: neighbours with the same name, that touch, share one.
type grouping func(x *timeline.Tile) string

// nest makes slices of tiles that do not overlap and are in order of time: one level for each grouping, and the
// tiles themselves below.
func nest(tiles []timeline.Tile, levels ...grouping) (all []slice) {
	if len(levels) == 0 {
		for i := range tiles {
			all = append(all, sliceOf(&tiles[i]))
		}
		return all
	}
	for from := 0; from < len(tiles); {
		name, to := levels[0](&tiles[from]), from+1
		for to < len(tiles) && tiles[to].At == tiles[to-1].End() && levels[0](&tiles[to]) == name {
			to++
		}
		all = append(all, slice{
			name: name, category: "group", at: tiles[from].At, end: tiles[to-1].End(),
			inner: nest(tiles[from:to], levels[1:]...),
		})
		from = to
	}
	return all
}

func sliceOf(x *timeline.Tile) slice {
	s := slice{
		name: report.TileText(x), category: plain.Line(string(x.Kind)), at: x.At, end: x.End(),
		args: map[string]any{"class": plain.Line(string(x.Class)), "thread": x.Thread},
	}
	if x.Reason != "" {
		s.args["reason"] = plain.Line(x.Reason)
	}
	if len(x.Stack) > 0 {
		s.args["stack"] = plain.Line(strings.Join(x.Stack, " ← "))
	}
	return s
}

// classOf groups the tiles of a thread by what they were for.
func classOf(x *timeline.Tile) string { return plain.Line(string(x.Class)) }

// laneOf groups the tiles of the path by their process.
func laneOf(tl *timeline.Timeline) grouping {
	return func(x *timeline.Tile) string {
		if !known(tl, x) {
			return "unknown"
		}
		return laneName(&tl.Lanes[x.Lane])
	}
}

// spanOf groups the tiles of the path by the part of the metric in which they begin.
func spanOf(tl *timeline.Timeline) grouping {
	return func(x *timeline.Tile) string {
		name := "outside"
		for _, s := range tl.Spans {
			if x.At >= s.At && x.At < s.At+s.Duration {
				name = plain.Line(s.Name)
			}
		}
		return name
	}
}

func laneName(l *timeline.Lane) string {
	name := plain.Line(string(l.Role))
	if own := plain.Line(l.Name); own != "" && own != name {
		name = strings.TrimSpace(name + " (" + own + ")")
	}
	if l.Process > 0 {
		name += " " + strconv.Itoa(l.Process)
	}
	return name
}

// pathTiles are the tiles of the path, cut where a part of the metric ends, so that each lies in one part.
func pathTiles(tl *timeline.Timeline) (all []timeline.Tile) {
	for _, x := range tl.Tiles {
		for _, s := range tl.Spans {
			if x.At < s.At && s.At < x.End() {
				before := x
				before.Duration = s.At - x.At
				all = append(all, before)
				x.At, x.Duration = s.At, x.End()-s.At
			}
		}
		all = append(all, x)
	}
	return all
}

// A track is one thread of a process.
type track struct {
	id    int
	tiles []timeline.Tile
}

// threads are the threads of a lane with what they did on the path and beside it, by their IDs.
func threads(tl *timeline.Timeline, lane int) (all []track) {
	on, beside := map[int][]timeline.Tile{}, map[int][]timeline.Tile{}
	var ids []int
	put := func(into map[int][]timeline.Tile, x timeline.Tile) {
		if on[x.Thread] == nil && beside[x.Thread] == nil {
			ids = append(ids, x.Thread)
		}
		into[x.Thread] = append(into[x.Thread], x)
	}
	for _, x := range tl.Tiles {
		if x.Lane == lane {
			put(on, x)
		}
	}
	for _, x := range tl.Lanes[lane].Beside {
		put(beside, x)
	}
	slices.Sort(ids)
	for _, id := range ids {
		all = append(all, track{id, merge(on[id], beside[id])})
	}
	return all
}

// merge puts what a thread did beside the path where the path leaves room, so that nothing overlaps.
func merge(on, beside []timeline.Tile) []timeline.Tile {
	all := slices.Clone(on)
	for _, x := range beside {
		for _, p := range on {
			if p.At < x.End() && x.At < p.End() { // the path has some of it
				if p.At > x.At {
					before := x
					before.Duration = p.At - x.At
					all = append(all, before)
				}
				x.At, x.Duration = p.End(), x.End()-p.End()
			}
		}
		if x.Duration > 0 {
			all = append(all, x)
		}
	}
	slices.SortStableFunc(all, func(a, b timeline.Tile) int { return cmp.Compare(a.At, b.At) })
	end := time.Duration(0)
	return slices.DeleteFunc(all, func(x timeline.Tile) bool {
		if x.At < end { // two beside the path at once: no thread can
			return true
		}
		end = x.End()
		return false
	})
}
