package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// A TurnCost says what turns have cost a cell. The numbers are means over its trials that took turns.
type TurnCost struct {
	Condition string  `json:"condition"` // empty where there is none
	Cell      string  `json:"cell"`
	Trials    int     `json:"trials"`
	Turns     float64 `json:"turns"`        // of a trial
	Time      float64 `json:"time_seconds"` // of those that lasted for a slice
	Lost      float64 `json:"lost_seconds"` // the part of it in which nothing was measured
}

func newTurnCost(cells []bench.Cell, c analysis.TurnCost) TurnCost {
	return TurnCost{
		Condition: cells[c.Cell].Condition, Cell: cells[c.Cell].Name, Trials: c.Trials,
		Turns: c.Turns, Time: c.Time, Lost: c.Lost,
	}
}

// turnParts says which cells took turns, and why trials ran whole although turns were asked for; nil where they were
// not. A condition that cannot take them only shows while it runs: a warning tells of that.
func (d *Document) turnParts(p *bench.Plan) [][]string {
	var parts []string
	if p.Slice > 0 && len(d.TurnCosts) > 0 {
		parts = append(parts, "cells took turns of "+unit.FormatDuration(p.Slice))
	}
	var reasons []string
	under := map[string][]string{} // by reason
	for _, w := range p.Whole {
		if !slices.Contains(reasons, w.Reason) {
			reasons = append(reasons, w.Reason)
		}
		under[w.Reason] = append(under[w.Reason], w.Condition)
	}
	for _, reason := range reasons[:min(len(reasons), shownReasons)] {
		parts = append(parts, "trials ran whole"+underWords(under[reason])+": "+plain.Line(reason))
	}
	if more := len(reasons) - shownReasons; more > 0 {
		parts = append(parts, unit.FormatCount(more, "more reason")+" to run whole")
	}
	if parts == nil {
		return nil
	}
	return [][]string{parts}
}

// shownReasons bounds how many reasons the head has, and under how many conditions each. --json has all.
const shownReasons = 3

// underWords names conditions.
func underWords(conditions []string) string {
	conditions = slices.DeleteFunc(slices.Clone(conditions), func(s string) bool { return s == "" })
	if len(conditions) == 0 {
		return ""
	}
	text := " under " + plain.Line(strings.Join(conditions[:min(len(conditions), shownReasons)], ", "))
	if more := len(conditions) - shownReasons; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// sayTurns says what turns have cost each cell. A turn that is a whole container costs nothing that is known.
func (d *Document) sayTurns() {
	for _, c := range d.TurnCosts {
		text := []string{unit.FormatCount(int(c.Turns+0.5), "turn")}
		if c.Time > 0 {
			text = append(text, unit.Format(c.Time, unit.Seconds)+" of slices",
				unit.FormatPercent(c.Lost/c.Time)+" of that lost at their edges")
		}
		d.View.Turns = append(d.View.Turns, Line{Name: plain.Line(qualifiedName(c.Cell, c.Condition)), Text: text})
	}
}
