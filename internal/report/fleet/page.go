package fleet

import (
	"bufio"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/fleet/odd"
	"github.com/tare-bench/tare/internal/report/html"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

//go:embed page.tmpl
var pageText string

//go:embed page.css
var pageStyle string

var page = template.Must(template.New("fleet").Parse(pageText))

// mostInMatrix is how many nodes a matrix of round trips has at most; the links of more are a list.
const mostInMatrix = 64

// A view is what the template shows. All its texts are plain.
type view struct {
	Title, Hash string
	Style       template.CSS
	Screen      string // as a terminal has it
	Maps        []mapView
	Head        []string
	Nodes       []nodeView
	Paths       []pathView
	LeftOut     []LeftOutNode
}

// A mapView has a square for each node, zone by zone.
type mapView struct {
	Title string
	Zones []zoneView
}

type zoneView struct {
	Name    string
	Squares []square
}

// A square is a node or a link.
type square struct {
	Class, Title string
	X, Y         int // in a matrix
}

type nodeView struct {
	Name  string
	Cells []square
}

type pathView struct {
	Title   string
	Size    int // of the matrix, in squares; 0 = there is none
	Width   int
	Squares []square
	Rows    []square // names at the left, in the order of the rows
	Links   []square // those that stand out, in words
}

// WritePage writes a page for a browser: no script, and nothing from a network.
func WritePage(w io.Writer, d *Document) error {
	v, err := newPage(d)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	if err := page.Execute(b, v); err != nil {
		return fmt.Errorf("write a page: %w", err)
	}
	return b.Flush()
}

func newPage(d *Document) (*view, error) {
	var screen strings.Builder
	if err := WriteText(&screen, d, Options{Width: 100}); err != nil {
		return nil, err
	}
	style := html.Style() + pageStyle
	v := &view{
		Title: plain.Line("tare: " + d.Experiment + " on " + unit.FormatCount(len(d.Nodes), "node")),
		Style: template.CSS(style), Hash: html.StyleHash(style), Screen: screen.String(), //nolint:gosec // ours
		Head: []string{"node", "state"},
	}
	for m := range d.Metrics {
		v.Maps = append(v.Maps, newMap(d, m))
		v.Head = append(v.Head, plain.Line(d.Metrics[m].Title))
	}
	for i := range d.Nodes {
		v.Nodes = append(v.Nodes, newRow(&d.Nodes[i]))
	}
	for i := range d.Paths {
		v.Paths = append(v.Paths, newMatrix(d, &d.Paths[i]))
	}
	for _, o := range d.LeftOut {
		v.LeftOut = append(v.LeftOut, LeftOutNode{plain.Line(o.Name), plain.Line(o.Reason)})
	}
	return v, nil
}

func newMap(d *Document, m int) mapView {
	v := mapView{Title: plain.Line(d.Metrics[m].Title)}
	zones := map[string][]square{}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if m >= len(n.Findings) {
			continue
		}
		f := &n.Findings[m]
		zones[n.Zone] = append(zones[n.Zone], square{Class: f.class(), Title: plain.Line(n.Name + ": " + f.Text)})
	}
	names := make([]string, 0, len(zones))
	for name := range zones {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		v.Zones = append(v.Zones, zoneView{plain.Line(name), zones[name]})
	}
	return v
}

// class is the colour of a finding. Only what is confirmed has one that says better or worse.
func (f *Finding) class() string {
	switch f.Verdict {
	case odd.Slow:
		return fmt.Sprintf("h%d", step(f.Ratio))
	case odd.Fast:
		return fmt.Sprintf("h-%d", step(f.Ratio))
	case odd.Ordinary:
		return "ordinary"
	case odd.NotMeasured:
		return "absent"
	}
	return "unsure"
}

// step is 1 for small effects, 2 for those beyond a tenth and 3 for those beyond a half.
func step(ratio *float64) int {
	if ratio == nil {
		return 1
	}
	switch size := math.Abs(math.Log(*ratio)); {
	case size > math.Log(1.5):
		return 3
	case size > math.Log(1.1):
		return 2
	}
	return 1
}

func newRow(n *Node) nodeView {
	v := nodeView{Name: plain.Line(n.Name)}
	state := string(n.State)
	if n.Reason != "" {
		state += ": " + n.Reason
	}
	v.Cells = append(v.Cells, square{Title: plain.Line(state)})
	for _, f := range n.Findings {
		text := f.Text
		if len(f.Reasons) > 0 {
			text += "; " + strings.Join(f.Reasons, ", ")
		}
		v.Cells = append(v.Cells, square{Class: f.class(), Title: plain.Line(text)})
	}
	return v
}

// cellSize is the width of one pair in the matrix, in pixels.
const cellSize = 12

func newMatrix(d *Document, p *Path) pathView {
	v := pathView{Title: plain.Line(p.title() + ": " + p.summary())}
	add := func(name, says string) { v.Links = append(v.Links, square{Title: plain.Line(name + ": " + says)}) }
	for _, n := range p.Silent {
		add(n.Name, p.none(n.Rounds, n.Of, n.Reason))
	}
	for _, l := range p.Losses {
		add(linkName(l.Ends), p.none(l.Rounds, l.Of, l.Reason))
	}
	for _, n := range p.Nodes {
		if stands(n.Verdict) {
			add(n.Name, p.node(&n))
		}
	}
	for _, l := range p.Links {
		if stands(l.Verdict) {
			add(linkName(l.Ends), p.link(&l))
		}
	}
	if len(p.Nodes) > mostInMatrix {
		return v
	}
	place := d.places(p)
	v.Size = len(p.Nodes)
	v.Width = v.Size * cellSize
	v.Rows = make([]square, v.Size)
	for _, n := range p.Nodes {
		at := place[n.Name]
		v.Rows[at] = square{Title: plain.Line(n.Name), Y: at * cellSize}
	}
	for i := range p.Links {
		l := &p.Links[i]
		class := fmt.Sprintf("m%d", shade(p.slower(l)))
		if stands(l.Verdict) {
			class += " odd"
		}
		x, y := place[l.Ends[1]]*cellSize, place[l.Ends[0]]*cellSize
		title := plain.Line(linkName(l.Ends) + ": " + p.link(l))
		v.Squares = append(v.Squares, square{class, title, x, y}, square{class, title, y, x})
	}
	for i := range p.Losses {
		if l := &p.Losses[i]; l.Rounds == l.Of { // nothing else is at its place
			x, y := place[l.Ends[1]]*cellSize, place[l.Ends[0]]*cellSize
			title := plain.Line(linkName(l.Ends) + ": " + p.none(l.Rounds, l.Of, l.Reason))
			v.Squares = append(v.Squares, square{"lost", title, x, y}, square{"lost", title, y, x})
		}
	}
	return v
}

// places are the nodes' positions in a matrix: by zone, then by name.
func (d *Document) places(p *Path) map[string]int {
	zone := map[string]string{}
	for _, n := range d.Nodes {
		zone[n.Name] = n.Zone
	}
	names := make([]string, len(p.Nodes))
	for i, n := range p.Nodes {
		names[i] = n.Name
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(zone[a]+"\x00"+a, zone[b]+"\x00"+b) })
	place := map[string]int{}
	for i, name := range names {
		place[name] = i
	}
	return place
}

// shade is how dark a square is: 0 for the median and below, 1 to 4 for up to 1.2, 1.5, 2 times, and more.
func shade(ratio float64) int {
	for i, most := range []float64{1.05, 1.2, 1.5, 2} {
		if ratio <= most {
			return i
		}
	}
	return 4
}
