package timeline

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// A row is one of its own if it has at least this share of the longer cell's time in one of the cells, and at
// least this much. All others are the Rest: each more row makes all intervals wider.
const (
	leastShare = 0.02
	leastTime  = 20 * time.Microsecond
)

// Between compares two cells, given as indices in Plan.Cells, by the blocks in which both have a complete
// timeline. It returns false if there is no such block.
func (r *Result) Between(cell, base int) (Difference, bool) {
	a, b := r.Of(cell), r.Of(base)
	if a == nil || b == nil {
		return Difference{}, false
	}
	ours, theirs := a.byBlock(), b.byBlock()
	var inCell, inBase []map[Key]*tally
	var changes []float64
	var longest float64
	for i := range a.Timelines {
		t := &a.Timelines[i]
		other := theirs[t.Trial.Block]
		if ours[t.Trial.Block] != t || other == nil {
			continue
		}
		inCell, inBase = append(inCell, t.tallies()), append(inBase, other.tallies())
		changes = append(changes, float64(t.Value-other.Value))
		longest += float64(max(t.Value, other.Value))
	}
	if len(changes) == 0 {
		return Difference{}, false
	}
	d := Difference{Cell: cell, Base: base, Blocks: len(changes), Mean: meanOf(changes, confidence)}
	d.Timed, d.TimedBlocks = timedDifference(a.timed, b.timed)
	least := max(duration(leastShare*longest/float64(len(changes))), leastTime)
	d.fill(inCell, inBase, least)
	return d, true
}

// timedDifference is the mean difference of timed trials, in seconds by block, and in how many blocks both are.
func timedDifference(cell, base map[int]float64) (Mean, int) {
	var changes []float64
	for _, block := range slices.Sorted(maps.Keys(cell)) {
		if v, ok := base[block]; ok {
			changes = append(changes, (cell[block]-v)*float64(time.Second))
		}
	}
	return meanOf(changes, confidence), len(changes)
}

// byBlock has the complete timelines by their blocks.
func (c *Cell) byBlock() map[int]*Timeline {
	all := map[int]*Timeline{}
	for i := range c.Timelines {
		if t := &c.Timelines[i]; t.Incomplete == "" {
			all[t.Trial.Block] = t
		}
	}
	return all
}

// fill sorts all rows into those that differ, those that do not, and the rest.
func (d *Difference) fill(inCell, inBase []map[Key]*tally, least time.Duration) {
	rest := make([]float64, len(inCell))
	var all []Change
	diffs := map[Key][]float64{}
	for _, k := range keys(slices.Concat(inCell, inBase)) {
		ours, theirs := sums(inCell, k), sums(inBase, k)
		c := Change{Key: k, Cell: meanOf(ours, confidence).Value, Base: meanOf(theirs, confidence).Value}
		for i := range ours {
			ours[i] -= theirs[i]
		}
		if max(c.Cell, c.Base) < least {
			for i := range ours {
				rest[i] += ours[i]
			}
			d.Rest.Cell, d.Rest.Base = d.Rest.Cell+c.Cell, d.Rest.Base+c.Base
			continue
		}
		longer := inCell
		if c.Base > c.Cell {
			longer = inBase
		}
		c.Processes, c.Reasons = details(longer, k)
		diffs[k] = ours
		all = append(all, c)
	}
	together := 1 - (1-confidence)/float64(len(all)+1) // Bonferroni: all intervals hold at once
	d.Rest.Mean = meanOf(rest, together)
	for _, c := range all {
		c.Mean = meanOf(diffs[c.Key], together)
		if m := c.Mean; m.HasInterval && (m.Low > 0 || m.High < 0) {
			d.Rows = append(d.Rows, c)
		} else {
			d.Folded = append(d.Folded, c)
		}
	}
	bySize := func(a, b Change) int { return cmp.Compare(b.Mean.Value.Abs(), a.Mean.Value.Abs()) }
	slices.SortStableFunc(d.Rows, bySize)
	slices.SortStableFunc(d.Folded, bySize)
}
