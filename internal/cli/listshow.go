package cli

import (
	"fmt"
	"io"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/term"
)

// shortName is how much of an experiment's name is shown, at least: "lifecycle".
const shortName = 9

// spared are the columns of the list that are left out on a narrow terminal, the
// first ones first.
var spared = []string{"HOST", "CELLS"}

// writeList prints runs in as many columns as fit.
func writeList(w io.Writer, runs []listed, width int) {
	rows := [][]string{{"RUN", "NAME", "HOST", "BEGAN", "CELLS", "TRIALS", "FAILED", "STATUS"}}
	for _, r := range runs {
		began := r.Began.Local().Format("2006-01-02 15:04")
		rows = append(rows, []string{
			plain.Line(r.ID), plain.Line(r.Name), plain.Line(r.Host), began,
			fmt.Sprint(r.all), fmt.Sprint(r.Samples), failedText(r), plain.Line(statusText(r)),
		})
	}
	if width != term.Unlimited {
		narrow(rows, width)
	}
	term.WriteTable(w, rows, term.Unlimited)
}

// failedText counts the trials that failed, and those that failed in part.
func failedText(r listed) string {
	if r.Partly == 0 {
		return fmt.Sprint(r.Failed)
	}
	return fmt.Sprintf("%d + %d partly", r.Failed, r.Partly)
}

// statusText says in words for people why a run ended.
func statusText(r listed) string {
	switch bench.StopReason(r.Status) {
	case bench.StopPrecision:
		return "done: precise"
	case bench.StopBlocks:
		return "done: all blocks"
	case bench.StopBudget:
		return "done: time limit"
	case bench.StopAllFailed:
		if r.Failed == 0 {
			return "nothing ran" // unsupported, or what it needs could not be made
		}
		return "all failed"
	case "incomplete":
		if r.Imported {
			return "incomplete, imported"
		}
	}
	return r.Status
}

// narrow takes columns out of rows until they fit, and then shortens names.
func narrow(rows [][]string, width int) {
	for _, name := range spared {
		if tooWide(rows, width) <= 0 {
			return
		}
		spare(rows, name)
	}
	at := slices.Index(rows[0], "NAME")
	if tooWide(rows, width) > max(0, widths(rows)[at]-shortName) {
		spare(rows, "BEGAN") // an ID begins with the time
	}
	if over := tooWide(rows, width); over > 0 {
		most := max(shortName, widths(rows)[at]-over)
		for _, row := range rows {
			row[at] = term.Shorten(row[at], most)
		}
	}
}

// spare takes a column out of rows.
func spare(rows [][]string, name string) {
	at := slices.Index(rows[0], name)
	for i := range rows {
		rows[i] = slices.Delete(rows[i], at, at+1)
	}
}

// tooWide is by how much rows are wider than they may be.
func tooWide(rows [][]string, width int) int { return term.Sum(widths(rows)) - width }

func widths(rows [][]string) (all []int) {
	for _, row := range rows {
		all = term.Widen(all, row)
	}
	return all
}
