package report

import (
	"fmt"
	"strconv"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// A Level says where the noise of a metric comes from, for a cell that took turns with its baseline. Start, Round,
// Slice and Pair are standard deviations of logarithms: 0.01 is 1 %.
type Level struct {
	Metric     string  `json:"metric"`
	Condition  string  `json:"condition"` // empty where there is none
	Cell       string  `json:"cell"`
	Baseline   string  `json:"baseline"`
	Blocks     int     `json:"blocks"`      // with slices of both
	Rounds     float64 `json:"rounds"`      // of a block, on average
	Start      float64 `json:"start"`       // from one start to the next
	Round      float64 `json:"round"`       // from one round of turns to the next, in all cells alike
	Slice      float64 `json:"slice"`       // from one slice of a cell to the next, beside that
	Pair       float64 `json:"pair"`        // of the ratio of the two, from block to block
	StartShare float64 `json:"start_share"` // of the variance of that ratio that comes from starts
}

func newLevel(cells []bench.Cell, l analysis.Level) Level {
	return Level{
		Metric: l.Metric, Condition: cells[l.Cell].Condition, Cell: cells[l.Cell].Name,
		Baseline: cells[l.Baseline].Name, Blocks: l.Blocks, Rounds: l.Rounds,
		Start: l.Start, Round: l.Round, Slice: l.Slice, Pair: l.Pair, StartShare: l.StartShare,
	}
}

func newConditionLevels(all []bench.Label) []ConditionLevel {
	out := make([]ConditionLevel, len(all))
	for i, l := range all {
		out[i] = ConditionLevel{l.Key, l.Value, levelNumber(l.Value)}
	}
	return out
}

// levelNumber reads a level as a number, a size or a time; nil if it is none.
func levelNumber(s string) *float64 {
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		return number(v)
	}
	if v, err := unit.ParseBytes(s); err == nil {
		return number(float64(v))
	}
	if v, err := unit.ParseDuration(s); err == nil {
		return number(v.Seconds())
	}
	return nil
}

// sayLevels says where the noise of cells that took turns comes from.
func (d *Document) sayLevels() {
	for _, l := range d.Levels {
		d.View.Levels = append(d.View.Levels, Line{
			Name: plain.Line(qualifiedName(l.Cell, l.Condition) + ", " + l.Metric),
			Text: []string{
				deviation(l.Start) + " from start to start", deviation(l.Round) + " from round to round (pairs do not have it)",
				deviation(l.Slice) + " from slice to slice",
				fmt.Sprintf("%s for the ratio to %s in %d blocks of %.0f rounds (%.0f %% of that variance is from starts)",
					deviation(l.Pair), plain.Line(l.Baseline), l.Blocks, l.Rounds, 100*l.StartShare),
			},
		})
	}
}

// deviation is a standard deviation in percent.
func deviation(v float64) string { return "±" + strconv.FormatFloat(100*v, 'g', 2, 64) + " %" }
