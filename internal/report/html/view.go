package html

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/report/figure"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// A view is what the template shows.
type view struct {
	Title       string
	Style       template.CSS
	StyleHashes string
	Level       string // of trust
	Single      bool   // one run
	Unit        string // what one value stands for
	Foreign     bool   // another program has measured it

	Screen      screenView
	Answers     []report.Line
	Differences []differenceView
	Questions   []question
	Operations  []figureView
	Omitted     string
	Legend      string
	Details     []tableView
	Reasons     []report.Line
	DataPaths   []report.Line
	Machine     []report.Line
	Levels      []report.Line
	Turns       []report.Line
	Applied     []report.Line
	Plan        []report.Line
	Repeat      string // the command
	Absent      []report.Line
	Failures    []report.Line
	Canceled    []report.Line
	Written     []report.Line
	Notes       []report.Note
	Head        [][]string
	Runs        []runView
	Commands    []string
}

type screenView struct {
	Title, Trust string
	Remarks      []string
	Sides        [][]string
	Tables       []tableView
}

// A question is one primary metric.
type question struct {
	ID, Title, Doc string
	Heats          []tableView // its findings by the levels of conditions
	Tables         []tableView
	Figures        []figureView
	Folded         []figureView // shown on request
	Open           bool         // they are shown at once

	metric     string
	conditions int
}

type differenceView struct {
	Name   string
	Values []string
}

type runView struct{ Name, Text string }

// Up to openQuestions questions nothing is folded, and up to openConditions conditions each has
// its values shown.
const (
	openQuestions  = 2
	openConditions = 4
)

func newView(d *report.Document) *view {
	l := newLimits(d)
	v := &view{
		Title: "tare: " + d.Screen.Title, Style: template.CSS(Style()), StyleHashes: StyleHash(Style()),
		Single: d.Kind == report.OneRun, Unit: d.Unit,
		Screen: screenView{
			Title: d.Screen.Title, Trust: d.Screen.Trust, Remarks: d.Screen.Remarks, Sides: d.Screen.Sides,
			Tables: l.tables(d.Screen.Tables),
		},
		Answers: d.View.Answers, Legend: d.Legend, Details: l.tables(d.View.Details), Reasons: l.lines(d.View.Reasons),
		DataPaths: l.lines(d.View.DataPaths), Levels: l.lines(d.View.Levels), Turns: l.lines(d.View.Turns),
		Applied: l.lines(d.View.Applied),
		Machine: d.View.Machine, Plan: d.View.Plan, Absent: l.lines(d.View.Absent), Failures: l.lines(d.View.Failures),
		Canceled: l.lines(d.View.Canceled), Written: l.lines(d.View.Written), Notes: l.notes(d.View.Notes), Head: d.Head,
	}
	if v.Single {
		v.Repeat = d.Runs[0].Plan.Command
		v.Foreign = slices.ContainsFunc(d.Warned, func(w report.Warning) bool { return w.Code == analysis.CodeNotApart })
	}
	if d.Trust != nil {
		v.Level = string(d.Trust.Level)
	}
	for _, x := range d.Differences {
		shown := lines(x.Values)
		for i, of := range x.Groups {
			shown[i] = plain.Line(strings.Join(of, ", ")) + ": " + shown[i]
		}
		v.Differences = append(v.Differences, differenceView{plain.Line(x.What), shown})
	}
	for i := range d.Runs {
		v.Runs = append(v.Runs, newRunView(&d.Runs[i]))
	}
	for _, s := range d.Next {
		v.Commands = append(v.Commands, s.Command+"  # "+s.Gives)
	}
	v.ask(d, l)
	v.Details = slices.DeleteFunc(v.Details, v.asked)
	v.draw(d)
	return v
}

// asked reports whether a question has the table already.
func (v *view) asked(t tableView) bool {
	return slices.ContainsFunc(v.Questions, func(q question) bool {
		return slices.ContainsFunc(q.Tables, func(of tableView) bool { return of.Title == t.Title })
	})
}

func lines(all []string) (out []string) {
	for _, s := range all {
		out = append(out, plain.Line(s))
	}
	return out
}

// newRunView says which run it was, and which tare made it.
func newRunView(r *report.Run) runView {
	return runView{
		Name: plain.Line(r.ID),
		Text: fmt.Sprintf("began %s · %s on %s · seed %d · tare %s", r.Began.UTC().Format("2006-01-02 15:04 UTC"),
			plain.Line(r.Experiment), plain.Line(r.Host.Hostname), r.Seed, plain.Line(r.Tool)),
	}
}

// ask makes a question of each primary metric, with its tables.
func (v *view) ask(d *report.Document, l *limits) {
	tables := slices.Concat(d.View.Tables, d.View.DetailTables)
	for i := range d.Metrics {
		m := &d.Metrics[i]
		if m.Role != bench.Primary {
			continue
		}
		q := question{
			ID: fmt.Sprintf("q%d", i+1), Title: plain.Line(m.Title), Doc: plain.Line(m.Doc), Heats: heats(m, l),
			metric: m.Name, conditions: len(m.Conditions),
		}
		// Metrics can have the same title: then their tables come in the same order.
		if at := slices.IndexFunc(tables, func(t report.Table) bool { return t.Title == q.Title }); at >= 0 {
			q.Tables = []tableView{l.table(&tables[at])}
			tables = slices.Delete(tables, at, at+1)
		}
		if d.Timelines != nil && d.Timelines.Metric == m.Name {
			q.Tables = append(q.Tables, l.timelines(d.Timelines.DifferenceTables())...)
		}
		v.Questions = append(v.Questions, q)
	}
}

// draw sorts the figures to the questions that they answer. They have the room that the tables leave.
func (v *view) draw(d *report.Document) {
	p := pictures{bytes: v.tableBytes()}
	for _, f := range p.views(figure.All(d)) {
		at := slices.IndexFunc(v.Questions, func(q question) bool { return q.metric == f.metric })
		switch {
		case f.metric == "":
			v.Operations = append(v.Operations, f)
		case at >= 0:
			v.Questions[at].add(f)
		}
	}
	v.Questions = slices.DeleteFunc(v.Questions, func(q question) bool { return len(q.Tables)+len(q.Figures) == 0 })
	for i := range v.Questions {
		q := &v.Questions[i]
		q.Open = len(v.Questions) <= openQuestions && len(q.Figures) == 1 && len(q.Heats) == 0
	}
	if p.omitted > 0 {
		v.Omitted = fmt.Sprintf("%s left out, so that the page stays small; tare report RUN --figure NAME -o FILE.svg "+
			"draws any of them, and --json has every value.", unit.FormatCount(p.omitted, "figure"))
	}
}

// add gives a question a figure.
func (q *question) add(f figureView) {
	if f.kind == figure.Drift || f.kind == figure.Estimation && q.conditions > openConditions {
		q.Folded = append(q.Folded, f)
		return
	}
	q.Figures = append(q.Figures, f)
}

// tableBytes is about how many bytes all tables take.
func (v *view) tableBytes() (bytes int) {
	all := slices.Concat(v.Screen.Tables, v.Details)
	for _, q := range v.Questions {
		all = append(append(all, q.Heats...), q.Tables...)
	}
	for i := range all {
		bytes += all[i].size()
	}
	return bytes
}

// A figureView is a figure with its numbers.
type figureView struct {
	ID, Caption string
	Panels      []template.HTML
	Tables      []tableView

	metric string // that it is of; empty if it is of single operations
	kind   figure.Kind
}

// pictures draws figures until the page is large enough.
type pictures struct{ bytes, count, omitted int }

// mostBytes is how many bytes all tables and figures of a page have at most.
const mostBytes = 5 << 19 // 2.5 MiB

func (p *pictures) views(all []figure.Figure) (out []figureView) {
	for i := range all {
		f := &all[i]
		view := figureView{
			ID: fmt.Sprintf("figure%d", i+1), Caption: f.Caption(), metric: f.Metric, kind: f.Kind,
		}
		size := 0
		for k := range f.Panels {
			p.count++
			svg := f.Panels[k].SVG(fmt.Sprintf("s%d", p.count))
			size += len(svg)
			view.Panels = append(view.Panels, template.HTML(svg))
		}
		if f.Numbers != nil {
			table := f.Numbers
			if f.Kind == figure.Waterfall {
				table = unbroken(table)
			}
			view.Tables = []tableView{newTable(table)}
			size += view.Tables[0].size()
		}
		if p.bytes+size > mostBytes {
			p.omitted++
			continue
		}
		p.bytes += size
		out = append(out, view)
	}
	return out
}

// A tableView is a table whose cells know how they look.
type tableView struct {
	Title, Subtitle string
	Marks           []int
	Columns         []report.Column
	Groups          []groupView
	Heat            bool   // colours say how much
	LeftOut         string // what it does not have, and where that is
}

type groupView struct {
	Title string
	Lines []lineView
}

type lineView struct{ Cells []cellView }

type cellView struct {
	Text, Class string
	Head        bool // of its row
	Marks       []int
	Bar         template.HTML
}

func newTable(t *report.Table) tableView {
	v := tableView{Title: t.Title, Subtitle: t.Subtitle, Marks: t.Marks, Columns: slices.Clone(t.Columns)}
	bars := false
	for _, g := range t.Groups {
		group := groupView{Title: g.Title}
		for _, r := range g.Lines {
			group.Lines = append(group.Lines, newLine(t, &r))
			bars = bars || r.Bar != nil
		}
		v.Groups = append(v.Groups, group)
	}
	if bars {
		v.Columns = append(v.Columns, report.Column{Name: "change"})
	}
	return v
}

// unbroken is a table beside whose long texts no number is folded.
func unbroken(t *report.Table) *report.Table {
	out := *t
	out.Groups = nil
	for _, g := range t.Groups {
		group := report.RowGroup{Title: g.Title}
		for _, r := range g.Lines {
			r.Cells = slices.Clone(r.Cells)
			for i := range r.Cells {
				if t.Columns[i].Right {
					r.Cells[i] = strings.ReplaceAll(r.Cells[i], " ", "\u00a0")
				}
			}
			group.Lines = append(group.Lines, r)
		}
		out.Groups = append(out.Groups, group)
	}
	return &out
}

func newLine(t *report.Table, r *report.TableRow) (line lineView) {
	for i, text := range r.Cells {
		c := cellView{Text: text, Head: i == 0, Class: class(report.Plain, t.Columns[i].Right)}
		last := i == len(r.Cells)-1
		switch {
		case r.Tones != nil:
			c.Class = class(r.Tones[i], t.Columns[i].Right)
		case last:
			c.Class = class(r.Tone, t.Columns[i].Right)
		}
		if last {
			c.Marks = slices.Compact(slices.Sorted(slices.Values(r.Marks)))
		}
		line.Cells = append(line.Cells, c)
	}
	if r.Bar != nil {
		line.Cells = append(line.Cells, cellView{Bar: template.HTML(figure.Bar(r.Bar, r.Tone))})
	}
	return line
}

func class(t report.Tone, right bool) string {
	name := map[report.Tone]string{report.Good: "good", report.Bad: "bad", report.Uncertain: "unsure"}[t]
	if right {
		name = strings.TrimSpace(name + " n")
	}
	return cmp.Or(name, "plain")
}
