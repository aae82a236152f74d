package report_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
)

// TestTurnsAreTold checks that a report says who took turns, and why others did not: once for each reason, without
// names of more conditions than a line has room for, and nothing where turns were not asked for.
func TestTurnsAreTold(t *testing.T) {
	quota := func(n int) (all []bench.Whole) {
		for i := range n {
			all = append(all, bench.Whole{Condition: fmt.Sprintf("cpus=%d", i), Reason: "a quota"})
		}
		return all
	}
	several := []bench.Whole{{Reason: "one"}, {Reason: "two"}, {Reason: "three"}, {Reason: "four"}, {Reason: "five"}}
	const took = "cells took turns of 20ms"
	for name, test := range map[string]struct {
		slice time.Duration
		whole []bench.Whole
		none  bool // of the trials took turns
		want  []string
	}{
		"not asked for":   {0, nil, true, nil},
		"all":             {20 * time.Millisecond, nil, false, []string{took}},
		"found while run": {20 * time.Millisecond, nil, true, nil},
		"none":            {0, several[:1], true, []string{"trials ran whole: one"}},
		"some":            {20 * time.Millisecond, quota(1), false, []string{took, "trials ran whole under cpus=0: a quota"}},
		"many conditions": {20 * time.Millisecond, quota(5), false, []string{
			took, "trials ran whole under cpus=0, cpus=1, cpus=2 and 2 more: a quota",
		}},
		"many reasons": {0, several, true, []string{
			"trials ran whole: one", "trials ran whole: two", "trials ran whole: three", "2 more reasons to run whole",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			run := turns()
			run.Header.Plan.Slice, run.Header.Plan.Whole = test.slice, test.whole
			for i := range run.Samples {
				if test.none {
					run.Samples[i].Values = run.Samples[i].Values[:1]
				}
			}
			result, err := analysis.Analyze(run, analysis.Options{})
			if err != nil {
				t.Fatal(err)
			}
			d := report.New(result, nil)
			var got []string
			for _, parts := range d.Head {
				if strings.Contains(strings.Join(parts, " "), "whole") || slices.Contains(parts, took) {
					got = parts
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("the head says %q, want %q", got, test.want)
			}
			if plan := d.Runs[0].Plan; plan.Slice != test.slice.Seconds() || len(plan.Whole) != len(test.whole) {
				t.Errorf("the plan has slices of %v s, and %v", plan.Slice, plan.Whole)
			}
		})
	}
}

// TestTurnsCost checks what a report says of the costs.
func TestTurnsCost(t *testing.T) {
	result, err := analysis.Analyze(turns(), analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := report.New(result, nil)
	if len(d.TurnCosts) != 2 || len(d.View.Turns) != 2 { // not those that ran whole, and no control
		t.Fatalf("costs of %+v, as lines %q", d.TurnCosts, d.View.Turns)
	}
	want := []string{"59 turns", "1.03 s of slices", "1.17 % of that lost at their edges"}
	if got := d.View.Turns[1]; got.Name != "runc (cpus=2)" || !slices.Equal(got.Text, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
