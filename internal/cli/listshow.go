package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/term"
)

// shortName is how much of the names of an experiment, a run or its cells is shown, at least:
// "lifecycle".
const shortName = 9

// Columns of the list that give way on a narrow terminal, the first ones first: those that are
// left out at once, those that are shortened, and those that are left out if that is not enough.
// A run's name is shortened last of all.
var (
	optionalColumns = []string{"HOST"}
	shortColumns    = []string{"CELLS", "LABELS", "EXPERIMENT"}
	lastColumns     = []string{"TRIALS", "CELLS", "LABELS"}
)

// writeList prints runs in as many columns as fit. Names and labels have columns if there
// are any.
func writeList(w io.Writer, runs []listed, width int, now time.Time) {
	rows := [][]string{{"RUN", "NAME", "EXPERIMENT", "HOST", "BEGAN", "CELLS", "TRIALS", "FAILED", "STATUS", "LABELS"}}
	for _, r := range runs {
		began := r.Began.Local().Format("2006-01-02 15:04")
		rows = append(rows, []string{
			plain.Line(r.Short), plain.Line(r.Name), plain.Line(r.Experiment), plain.Line(r.Host), began,
			plain.Line(strings.Join(r.names, ",")), fmt.Sprint(r.Samples), failedText(r), plain.Line(statusText(r)), labelsText(r.Labels),
		})
	}
	for _, name := range []string{"NAME", "LABELS"} {
		at := slices.Index(rows[0], name)
		if !slices.ContainsFunc(rows[1:], func(row []string) bool { return row[at] != "" }) {
			dropColumn(rows, name)
		}
	}
	if width != term.Unlimited {
		dropColumns(rows, width, func() {
			at := slices.Index(rows[0], "BEGAN")
			for i, r := range runs {
				rows[i+1][at] = shortTime(r.Began, now)
			}
		})
	}
	term.WriteTable(w, rows, term.Unlimited)
}

// shortTime is a time as 'ls' writes it: the year takes the place of the hour where the time is
// more than half a year away.
func shortTime(t, now time.Time) string {
	if away := now.Sub(t).Abs(); away > 182*24*time.Hour {
		return t.Local().Format("Jan _2  2006")
	}
	return t.Local().Format("Jan _2 15:04")
}

// labelsText writes labels as they were typed.
func labelsText(labels []bench.Label) string {
	var all []string
	for _, l := range labels {
		all = append(all, plain.Line(l.Key+"="+l.Value))
	}
	return strings.Join(all, " ")
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
		return "done"
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

// dropColumns takes columns out of rows until they fit, and then shortens times and names. That no trial failed is the
// first thing that need not be said.
func dropColumns(rows [][]string, width int, shortenTimes func()) {
	for _, name := range optionalColumns {
		if excessWidth(rows, width) <= 0 {
			return
		}
		dropColumn(rows, name)
	}
	if excessWidth(rows, width) > 0 {
		shortenTimes()
	}
	failed := slices.Index(rows[0], "FAILED")
	none := !slices.ContainsFunc(rows[1:], func(row []string) bool { return row[failed] != "0" })
	if none && excessWidth(rows, width) > roomToShorten(rows, shortColumns) {
		dropColumn(rows, "FAILED")
	}
	for _, name := range lastColumns {
		if excessWidth(rows, width) > roomToShorten(rows, shortColumns) {
			dropColumn(rows, name)
		}
	}
	names := append(slices.Clone(shortColumns), "NAME")
	if excessWidth(rows, width) > roomToShorten(rows, names) {
		dropColumn(rows, "BEGAN")
	}
	for _, name := range names {
		at, over := slices.Index(rows[0], name), excessWidth(rows, width)
		if at < 0 || over <= 0 {
			continue
		}
		most := max(leastOf(name), widths(rows)[at]-over)
		for _, row := range rows {
			row[at] = term.Shorten(row[at], most)
		}
	}
}

// roomToShorten is by how much rows can become narrower if columns are shortened.
func roomToShorten(rows [][]string, columns []string) (room int) {
	for _, name := range columns {
		if at := slices.Index(rows[0], name); at >= 0 {
			room += max(0, widths(rows)[at]-leastOf(name))
		}
	}
	return room
}

// leastOf is how wide a column of names is, at least.
func leastOf(heading string) int { return max(shortName, len(heading)) }

// dropColumn takes a column out of rows.
func dropColumn(rows [][]string, name string) {
	at := slices.Index(rows[0], name)
	for i := range rows {
		if at >= 0 {
			rows[i] = slices.Delete(rows[i], at, at+1)
		}
	}
}

// excessWidth is by how much rows are wider than they may be.
func excessWidth(rows [][]string, width int) int { return term.Sum(widths(rows)) - width }

func widths(rows [][]string) (all []int) {
	for _, row := range rows {
		all = term.Widen(all, row)
	}
	return all
}
