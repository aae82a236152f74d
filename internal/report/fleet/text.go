package fleet

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/odd"
	"github.com/tare-bench/tare/internal/fleet/pairs"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/term"
	"github.com/tare-bench/tare/internal/text/unit"
)

// Options say how the screen looks.
type Options struct {
	Width int  // columns; 0 = 80
	Color bool // ANSI colours
	All   bool // every node and link, not only those that stand out
}

// mostShown is how many nodes of a kind the screen names one by one.
const mostShown = 10

// A screen writes a document for a terminal.
type screen struct {
	*Document
	Options
	w *bufio.Writer
}

// WriteText writes the screen: the odd nodes first, then the fleet, then what was not measured.
func WriteText(w io.Writer, d *Document, o Options) error {
	if o.Width <= 0 {
		o.Width = 80
	}
	s := &screen{d, o, bufio.NewWriter(w)}
	s.title()
	s.stand()
	s.fleet()
	s.paths()
	s.rest()
	s.next()
	return s.w.Flush()
}

func (s *screen) line(text string) { term.WriteWrapped(s.w, "", text, s.Width) }

func (s *screen) gap() { _ = s.w.WriteByte('\n') } // the writer remembers its error

func (s *screen) title() {
	round := unit.FormatDuration(time.Duration(s.Round * float64(time.Second)))
	s.line(fmt.Sprintf("%s on %s of %s, %s of %s", s.Experiment, unit.FormatCount(len(s.Nodes), "node"), s.Cluster,
		unit.FormatCount(s.Rounds, "round"), round))
	s.gap()
}

// stand names the nodes that stand out, one finding a line.
func (s *screen) stand() {
	if s.Counts.Odd == 0 {
		s.line(s.nobody())
	}
	all := s.standing()
	shown := all
	if len(all) > mostShown && !s.All {
		shown = all[:mostShown]
	}
	var widths []int
	for _, one := range shown {
		widths = term.Widen(widths, []string{term.Shorten(plain.Line(one.node.Name), longestName)})
	}
	for _, one := range shown {
		s.finding(one, widths[0])
	}
	if more := len(all) - len(shown); more > 0 {
		s.line(fmt.Sprintf("and %d more: --all has them", more))
	}
	for _, m := range s.Metrics {
		for _, g := range m.Groups {
			if len(g.Kinds) == 2 {
				s.line(fmt.Sprintf("%s%s: the nodes are of two kinds, so none is called odd: %s; and %s", m.Title,
					m.of(g.Name), few(g.Kinds[0]), few(g.Kinds[1])))
			}
		}
	}
	s.gap()
}

// longestName is how much room names have in a column; longer ones are whole, too.
const longestName = 24

// A standing is why a node stands out, in words.
type standing struct {
	node *Node
	text string
}

// standing lists them, node by node.
func (s *screen) standing() (all []standing) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for m := range n.Findings {
			if f := &n.Findings[m]; rank(f.Verdict) <= rank(odd.Unsteady) {
				all = append(all, standing{n, f.stands(&s.Metrics[m], n.Group)})
			}
		}
		for j := range s.Paths {
			p := &s.Paths[j]
			if x := p.nodeCalled(n.Name); x != nil && stands(x.Verdict) {
				all = append(all, standing{n, p.stands(x)})
			}
		}
	}
	return all
}

// nobody says that no node is odd, as far as that is known.
func (s *screen) nobody() string {
	switch {
	case len(s.Metrics) == 0:
		return "Nothing is measured yet."
	case len(s.Nodes) < 3:
		return "With fewer than three nodes nobody can say which is the odd one: compare their runs."
	case s.Counts.NotMeasured == s.Counts.Nodes:
		return "No node could be compared; why is below."
	case s.Counts.Suspect > 0 && s.again:
		return "No node is known to be odd; the suspects' second pass is not over."
	case s.Counts.Suspect > 0:
		return "No node is known to be odd; suspects were not measured again."
	}
	for i := range s.Paths {
		if slices.ContainsFunc(s.Paths[i].Links, func(l PathLink) bool { return stands(l.Verdict) }) {
			return "No node is known to be odd, but a link is: see below."
		}
	}
	return "No node is known to be odd."
}

// finding is one line, which goes on below: node2  36 % slower (24–54 %) than the others: compute. Waiting …
func (s *screen) finding(one standing, width int) {
	begin := term.Pad(plain.Line(one.node.Name), width, false) + "  "
	if s.Color {
		term.WriteHanging(s.w, "\x1b[1m"+begin+"\x1b[0m", term.Width(begin), one.text, s.Width)
		return
	}
	term.WriteWrapped(s.w, begin, one.text, s.Width)
}

// notCompared is why a node that was measured is not compared.
func (s *screen) notCompared(n *Node) string {
	others := func(x Node) bool { return x.Group == n.Group && x.Name != n.Name }
	if !slices.ContainsFunc(s.Nodes, others) {
		return "nothing to compare it with: it is the only node of its kind"
	}
	return "too few rounds to compare it: " + strconv.Itoa(n.Rounds)
}

// isSmall reports whether a group has too few nodes for a scale between them.
func (m *Metric) isSmall(group string) bool {
	for _, g := range m.Groups {
		if g.Name == group {
			return g.Small
		}
	}
	return false
}

// of names a group, if the metric has several.
func (m *Metric) of(group string) string {
	if len(m.Groups) < 2 || group == "" {
		return ""
	}
	return " of " + group
}

// fleet is the table of all nodes together.
func (s *screen) fleet() {
	if len(s.Metrics) == 0 {
		return
	}
	rows := [][]string{{"", "median", "nodes differ by", "rounds differ by", "odd beyond"}}
	for _, m := range s.Metrics {
		for _, g := range m.Groups {
			row := []string{m.Title + m.of(g.Name), "", "too few nodes", "", ""}
			if g.Center != nil {
				row[1] = unit.Format(*g.Center, m.Unit)
			}
			if g.Spread != nil && !g.Small {
				row[2] = percent(*g.Spread)
			}
			if g.Noise != nil {
				row[3] = percent(*g.Noise)
			}
			if g.Limit != nil {
				row[4] = percent(*g.Limit)
			}
			rows = append(rows, row)
		}
	}
	term.WriteTable(s.w, rows, s.Width)
	s.gap()
	if s.All {
		s.everyNode()
	}
}

// everyNode is a row for each node.
func (s *screen) everyNode() {
	head := []string{"node", "state", "rounds"}
	for _, m := range s.Metrics {
		head = append(head, m.Title)
	}
	rows := [][]string{head}
	for _, n := range s.Nodes {
		row := []string{n.Name, string(n.State), fmt.Sprint(n.Rounds)}
		for _, f := range n.Findings {
			row = append(row, f.Text)
		}
		for len(row) < len(head) {
			row = append(row, "")
		}
		rows = append(rows, row)
	}
	term.WriteTable(s.w, rows, s.Width)
	s.gap()
}

// paths is what round trips tell.
func (s *screen) paths() {
	for _, p := range s.Paths {
		s.line(p.title() + ": " + p.summary())
		shown := 0
		show := func(name, says string) {
			if shown++; shown <= mostShown || s.All {
				term.WriteWrapped(s.w, "  "+plain.Line(name)+"  ", says, s.Width)
			}
		}
		for _, n := range p.Nodes {
			if stands(n.Verdict) || s.All {
				show(n.Name, p.node(&n))
			}
		}
		for _, l := range p.Links {
			if stands(l.Verdict) || s.All {
				show(linkName(l.Ends), p.link(&l))
			}
		}
		for _, n := range p.Silent {
			show(n.Name, p.none(n.Rounds, n.Of, n.Reason))
		}
		for _, l := range p.Losses {
			show(linkName(l.Ends), p.none(l.Rounds, l.Of, l.Reason))
		}
		if shown > mostShown && !s.All {
			s.line(fmt.Sprintf("  and %d more: --all has them", shown-mostShown))
		}
		if len(p.Apart) > 0 {
			term.WriteWrapped(s.w, "  ", "not judged, since few nodes are in their zone: "+few(p.Apart), s.Width)
		}
		may := p.mayStand()
		switch {
		case shown > 0:
		case may != nil:
			term.WriteWrapped(s.w, "  ", fmt.Sprintf("No node and no link is known to stand out. %s may: %s. More rounds would "+
				"tell.", plain.Line(may.Name), p.far(may.Ratio, p.way(may))), s.Width)
		case s.Rounds < pairs.Enough:
			s.line(fmt.Sprintf("  No link stands out; it takes %d rounds to name a node.", pairs.Enough))
		default:
			s.line("  No node and no link stands out.")
		}
		s.gap()
	}
}

// linkName is a pair as it is shown.
func linkName(ends [2]string) string { return ends[0] + " – " + ends[1] }

// rest says how many nodes are what, and which were not measured.
func (s *screen) rest() {
	c := s.Counts
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{
		{c.Odd, "odd"},
		{c.Suspect, "suspect"},
		{c.Unsteady, "unsteady"},
		{c.Ordinary, "ordinary"},
		{c.Unclear, "unclear"},
		{c.NotMeasured, "not measured"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	s.line(fmt.Sprintf("Of %s: %s", unit.FormatCount(c.Nodes, "node"), strings.Join(parts, ", ")))
	names := map[string][]string{} // by reason
	var reasons []string
	missing := func(name, reason string) {
		if names[reason] == nil {
			reasons = append(reasons, reason)
		}
		names[reason] = append(names[reason], name)
	}
	for _, n := range s.Nodes {
		switch {
		case n.State == fleet.Done && n.Verdict == odd.NotMeasured:
			missing(n.Name, s.notCompared(&n))
		case n.State == fleet.Done:
		case n.Reason != "":
			missing(n.Name, string(n.State)+" after "+unit.FormatCount(n.Rounds, "round")+": "+n.Reason)
		default:
			missing(n.Name, string(n.State)+" after "+unit.FormatCount(n.Rounds, "round"))
		}
	}
	for _, o := range s.LeftOut {
		missing(o.Name, o.Reason)
	}
	for i, reason := range reasons {
		if i == mostShown && !s.All {
			s.line(fmt.Sprintf("  %d more reasons: --all has them", len(reasons)-i))
			break
		}
		lines := names[reason]
		if !s.All {
			lines = []string{few(lines)}
		}
		for _, who := range lines {
			term.WriteWrapped(s.w, "  "+plain.Line(who)+"  ", reason, s.Width)
		}
	}
	for i, w := range s.Warnings {
		if i == 3 && !s.All {
			s.line(fmt.Sprintf("%d more warnings: --all has them", len(s.Warnings)-i))
			break
		}
		term.WriteWrapped(s.w, "warning: ", w, s.Width)
	}
}

// next says what to do next.
func (s *screen) next() {
	var all [][2]string
	underWay := s.again
	for _, n := range s.Nodes {
		underWay = underWay || n.State == fleet.Waiting || n.State == fleet.Running
	}
	if underWay {
		all = append(all, [2]string{"tare fleet gather " + plain.Line(s.Fleet), "takes what the cluster still has"})
	}
	if needs := s.needs(); needs > s.Rounds && !underWay && isName(s.Experiment) {
		all = append(all, [2]string{
			fmt.Sprintf("tare fleet run %s … --rounds %d", s.Experiment, needs),
			"with the same options as before would probably make the unclear ones clear: " +
				unit.FormatDuration(time.Duration(float64(needs)*s.Round)*time.Second),
		})
	}
	if !s.All {
		all = append(all, [2]string{"tare fleet show " + plain.Line(s.Fleet) + " --all", "every node"})
	}
	if len(all) == 0 {
		return
	}
	s.gap()
	var widths []int
	for _, next := range all {
		widths = term.Widen(widths, next[:1])
	}
	for _, next := range all {
		term.WriteWrapped(s.w, term.Pad(next[0], widths[0]+term.Gap, false), next[1], s.Width)
	}
}

// isName reports whether an experiment's name can be given to a shell as it is: it may come from a cluster.
func isName(experiment string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-"
	return experiment != "" && strings.Trim(experiment, letters) == ""
}

// needs is how many rounds most of the unclear nodes would take; 0 if that is unknown.
func (s *screen) needs() (most int) {
	for _, n := range s.Nodes {
		for _, f := range n.Findings {
			if f.Verdict == odd.Unclear {
				most = max(most, f.Needs)
			}
		}
	}
	return most
}
