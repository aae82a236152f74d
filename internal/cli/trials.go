package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/term"
	"github.com/tare-bench/tare/internal/text/unit"
)

// shownTrial is one trial as --trials prints it.
type shownTrial struct {
	Seq     int                `json:"seq"`
	Block   int                `json:"block"` // from 1; 0 and below while warming up
	Cell    string             `json:"cell"`
	Outcome bench.Outcome      `json:"outcome"`
	Reason  string             `json:"reason,omitempty"`
	Values  map[string]float64 `json:"values,omitempty"` // by metric, in its unit
}

// showTrials lists the trials of a stored run. It never holds all of them in memory:
// a run may have a million.
func (a *invocation) showTrials(ctx context.Context, s bench.Store, id string) error {
	b := bufio.NewWriter(a.stdout)
	if a.global.JSON {
		return errors.Join(writeTrialsJSON(b, record.Stored(ctx, s, id)), b.Flush())
	}
	// The first pass finds the widths of the columns, the second prints. In between, a
	// running run may have grown.
	var widths []int
	for row, err := range trialRows(record.Stored(ctx, s, id)) {
		if err != nil {
			return err
		}
		widths = columnWidths(widths, row)
	}
	for row, err := range trialRows(record.Stored(ctx, s, id)) {
		if err != nil {
			return err
		}
		if _, err := b.WriteString(term.Line(row, widths)); err != nil {
			return err
		}
	}
	return b.Flush()
}

// columnWidths makes columns wide enough for another row. Its last cell needs no width.
func columnWidths(widths []int, row []string) []int { return term.Widen(widths, row[:len(row)-1]) }

// trialRows are the primary metrics of each trial, or why it has none, below a head.
func trialRows(events iter.Seq2[record.Event, error]) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		var h *bench.Header
		for e, err := range events {
			var row []string
			switch {
			case err != nil:
				yield(nil, err)
				return
			case e.Header != nil:
				h = e.Header
				row = []string{"TRIAL", "BLOCK", "CELL", "OUTCOME"}
				for _, m := range h.Metrics {
					if m.Role == bench.Primary {
						row = append(row, plain.Line(m.Name))
					}
				}
			case e.Sample != nil:
				row = trialRow(h, e.Sample)
			default:
				continue
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

func trialRow(h *bench.Header, s *bench.Sample) []string {
	row := []string{
		fmt.Sprint(s.Trial.Seq), fmt.Sprint(s.Trial.Block + 1), plain.Line(h.Plan.Cells[s.Trial.Cell].FullName()),
		plain.Line(string(s.Outcome)),
	}
	if s.Trial.Traced {
		row[len(row)-1] += ", traced"
	}
	if s.Reason != "" {
		return append(row, plain.Line(s.Reason))
	}
	for i, m := range h.Metrics {
		if m.Role != bench.Primary {
			continue
		}
		value := unit.None
		if v, ok := s.Value(i); ok {
			value = unit.Format(v, m.Unit)
		}
		row = append(row, plain.Line(value))
	}
	return row
}

// writeTrialsJSON prints the same list for programs, with every metric.
func writeTrialsJSON(w io.Writer, events iter.Seq2[record.Event, error]) error {
	var h *bench.Header
	list := plain.List{W: w}
	for event, err := range events {
		switch {
		case err != nil:
			return err
		case event.Header != nil:
			h = event.Header
		case event.Sample != nil:
			if err := list.Add(shownTrialOf(h, event.Sample)); err != nil {
				return err
			}
		}
	}
	return list.Close()
}

func shownTrialOf(h *bench.Header, s *bench.Sample) shownTrial {
	t := shownTrial{s.Trial.Seq, s.Trial.Block + 1, h.Plan.Cells[s.Trial.Cell].FullName(), s.Outcome, s.Reason, nil}
	for i, m := range h.Metrics {
		if v, ok := s.Value(i); ok {
			if t.Values == nil {
				t.Values = map[string]float64{}
			}
			t.Values[m.Name] = v
		}
	}
	return t
}
