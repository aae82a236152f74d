package fleet_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/odd"
	"github.com/tare-bench/tare/internal/fleet/pairs"
	report "github.com/tare-bench/tare/internal/report/fleet"
	"github.com/tare-bench/tare/internal/text/term"
)

var update = flag.Bool("update", false, "write the golden files anew")

// A fleet's report is what the golden files have.
func TestGolden(t *testing.T) {
	for name, in := range map[string]report.Input{
		"three": three(), "twenty": twenty(), "pending": pending(), "kinds": kinds(),
		"few": few(),
	} {
		d := report.New(in)
		for _, form := range []struct {
			name  string
			write func(io.Writer) error
		}{
			{"txt", func(w io.Writer) error { return report.WriteText(w, d, report.Options{}) }},
			{"all.txt", func(w io.Writer) error { return report.WriteText(w, d, report.Options{Width: 120, All: true}) }},
			{"json", func(w io.Writer) error { return report.WriteJSON(w, d) }},
			{"csv", func(w io.Writer) error { return report.WriteCSV(w, d) }},
			{"html", func(w io.Writer) error { return report.WritePage(w, d) }},
		} {
			var b bytes.Buffer
			if err := form.write(&b); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+"."+form.name)
			if *update {
				if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b.Bytes(), want) {
				t.Errorf("%s is now (go test -update writes it):\n%s", file, b.String())
			}
		}
	}
}

// A node whose interval is beyond the limit is not named before it is known, but nobody is told that all is well.
func TestMayStand(t *testing.T) {
	const may = "node2 may: 49 % slower"
	for name, c := range map[string]struct {
		limit, low float64
		want       bool
	}{
		"beyond the limit":     {limit: 0.1, low: 0.3, want: true},
		"across the limit":     {limit: 0.1, low: 0.05},
		"within a wider limit": {limit: 0.9, low: 0.3},
	} {
		in := three()
		p := &in.Paths[0]
		p.NodeLimit, p.Links, p.Apart = c.limit, p.Links[:1], nil
		p.Nodes[1].Verdict, p.Nodes[1].Effect.Low, p.Links[0].Verdict = pairs.Unclear, c.low, pairs.Unclear
		in.Paths = in.Paths[:1]
		d := report.New(in)
		var b strings.Builder
		if err := report.WriteText(&b, d, report.Options{Width: 200}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), may) != c.want {
			t.Errorf("%s: want %q: %v, in\n%s", name, may, c.want, b.String())
		}
	}
}

// Suspects whose second pass is not over are not called unconfirmed.
func TestSecondPass(t *testing.T) {
	for state, over := range map[fleet.State]bool{"": false, fleet.Running: false, fleet.Done: true} {
		in := of(3, 1)
		in.Fleet.Confirm, in.Judged.Findings[0][1].Verdict = 5, odd.Suspect
		if state != "" {
			in.Fleet.Outcomes = append(in.Fleet.Outcomes, fleet.Outcome{Node: "node2", Pass: 2, State: state})
		}
		var b strings.Builder
		if err := report.WriteText(&b, report.New(in), report.Options{Width: 200}); err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]bool{
			"the suspects' second pass is not over": !over, "tare fleet gather": !over, "suspects were not measured again": over,
		} {
			if strings.Contains(b.String(), text) != want {
				t.Errorf("state %q: want %q: %v, in\n%s", state, text, want, b.String())
			}
		}
	}
}

// The screen fits the terminal.
func TestWidth(t *testing.T) {
	var b strings.Builder
	if err := report.WriteText(&b, report.New(twenty()), report.Options{Width: 72}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if w := term.Width(strings.TrimSuffix(line, "\n")); w > 72 {
			t.Errorf("%d columns: %s", w, line)
		}
	}
}

// What nodes and the cluster are called, and what they say, does nothing to a terminal, a page or a spreadsheet.
func TestHostileNames(t *testing.T) {
	in := three()
	const name = "=cmd|'/c calc'!A1\x1b[2J<script>alert(1)</script>\nnode"
	in.Fleet.Nodes[1].Name, in.Odd.Nodes[1] = name, name
	in.Fleet.Outcomes[1].Node, in.Fleet.Outcomes[1].Reason = name, "\x1b]0;x\a<b>"
	in.Fleet.Outcomes[1].State = fleet.Failed
	in.Fleet.Nodes[1].Zone = name
	d := report.New(in)
	var text, page, csv, js bytes.Buffer
	for _, err := range []error{
		report.WriteText(&text, d, report.Options{All: true}), report.WritePage(&page, d), report.WriteCSV(&csv, d),
		report.WriteJSON(&js, d),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for what, b := range map[string]string{"text": text.String(), "page": page.String(), "csv": csv.String()} {
		if strings.ContainsAny(b, "\x1b\a") {
			t.Errorf("%s has control characters: %q", what, b)
		}
	}
	if strings.Contains(page.String(), "<script") || strings.Contains(page.String(), "<b>") {
		t.Error("the page has foreign elements")
	}
	for line := range strings.Lines(csv.String()) {
		if strings.HasPrefix(line, "=") {
			t.Errorf("a spreadsheet runs %q", line)
		}
	}
	if !json.Valid(js.Bytes()) {
		t.Error("invalid JSON")
	}
}

// Whatever nodes and metrics are called, and whatever is said of them, nothing that is written can move the cursor of
// a terminal, and a page has no elements but its own.
func FuzzFleet(f *testing.F) {
	for _, s := range []string{
		"node", "=cmd|'/c calc'!A1\x1b[2J<script>alert(1)</script>\n", "\u202egnp\u0085\u2028\t\r", "\xff\x00é", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d := report.New(foreign(s))
		for name, write := range map[string]func(io.Writer) error{
			"text":     func(w io.Writer) error { return report.WriteText(w, d, report.Options{}) },
			"all text": func(w io.Writer) error { return report.WriteText(w, d, report.Options{Width: 120, All: true}) },
			"json":     func(w io.Writer) error { return report.WriteJSON(w, d) },
			"csv":      func(w io.Writer) error { return report.WriteCSV(w, d) },
			"page":     func(w io.Writer) error { return report.WritePage(w, d) },
		} {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !utf8.Valid(b.Bytes()) || name == "page" && bytes.Contains(b.Bytes(), []byte("<script")) {
				t.Errorf("%s is not UTF-8, or has a script: %q", name, b.Bytes())
			}
			for _, c := range b.String() {
				allowed := c == '\n' || c == '\r' && name == "csv"
				if unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && !allowed {
					t.Fatalf("%s has the character %U", name, c)
				}
			}
		}
	})
}

// foreign is a fleet of which every text has s.
func foreign(s string) report.Input {
	in := twenty()
	f := &in.Fleet
	f.ID, f.Tool, f.Cluster, f.Experiment, f.Image = s, s, s, s, s
	for i := range f.Nodes {
		name := s + fmt.Sprint(i)
		f.Nodes[i] = fleet.Node{Name: name, Zone: s, Group: s, InstanceType: s, Arch: s, Kernel: s}
		o := &f.Outcomes[i]
		o.Node, o.Reason, o.Run, o.ImageID, o.Admitted, in.Odd.Nodes[i] = name, s, s, name, []string{s}, name
	}
	f.LeftOut = []fleet.Omission{{Node: s, Reason: s}}
	for m := range in.Metrics {
		in.Metrics[m].Name, in.Metrics[m].Title, in.Metrics[m].Unit = s, s, s
		in.Reasons[m][4] = []string{s, s}
		in.Judged.Groups[m][0].Name = s
	}
	for i := range in.Paths {
		p := &in.Paths[i]
		p.Network, p.Losses[0].Reason, p.Silent[0].Reason = s, s, s
	}
	return in
}

var began = time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)

// compute and copying are metrics as a workload declares them.
var (
	compute = bench.Metric{
		Name: "cpu.single", Title: "compute, one thread", Unit: "1/s", Better: bench.Higher, Role: bench.Primary, Scale: bench.Ratio,
	}
	latency = bench.Metric{
		Name: "rtt.p50", Title: "round trip, median", Unit: "s", Better: bench.Lower, Role: bench.Primary, Scale: bench.Ratio,
	}
)

// of is a fleet of n nodes in zones.
func of(n, zones int) report.Input {
	f := fleet.Fleet{
		Format: fleet.Format, ID: "20261126-100000-abcd", Tool: "v1.0.0", Began: began, Cluster: "https://10.0.0.1:6443",
		Namespaces: []string{"tare"}, Image: "registry.example/tare@sha256:0123", Experiment: "cpu", Seed: 7, Rounds: 10,
		Round: 8 * time.Second, Confirm: 5,
	}
	in := report.Input{Metrics: []bench.Metric{compute, latency}}
	for i := range n {
		name := fmt.Sprintf("node%d", i+1)
		f.Nodes = append(f.Nodes, fleet.Node{Name: name, Zone: fmt.Sprintf("zone-%c", 'a'+i%zones), Arch: "amd64", Kernel: "6.12.1"})
		f.Outcomes = append(f.Outcomes, fleet.Outcome{
			Node: name, Pass: 1, State: fleet.Done, Run: fmt.Sprintf("%s-%d", f.ID, i+1), Rounds: 10, ImageID: "sha256:0123",
		})
		in.Odd.Nodes = append(in.Odd.Nodes, name)
	}
	in.Fleet = f
	for range in.Metrics {
		var all []odd.Finding
		for i := range n {
			e := 0.004 * float64(i%5-2)
			all = append(all, odd.Finding{
				Verdict: odd.Ordinary, Effect: e, Low: e - 0.01, High: e + 0.01, P: 1, Noise: 0.012, Rounds: 10,
			})
		}
		in.Judged.Findings = append(in.Judged.Findings, all)
		in.Reasons = append(in.Reasons, make([][]string, n))
	}
	in.Judged.Groups = [][]odd.Group{
		{{Nodes: n, Limit: 0.05, Spread: 0.008, Noise: 0.012, Center: 23700, Small: n < 8}},
		{{Nodes: n, Limit: 0.06, Spread: 0.009, Noise: 0.02, Center: 61e-6, Small: n < 8}},
	}
	return in
}

func three() report.Input {
	in := of(3, 1)
	in.Judged.Findings[0][1] = odd.Finding{
		Verdict: odd.Slow, Effect: math.Log(0.64), Low: math.Log(0.46), High: math.Log(0.76), P: 0.004, Noise: 0.1, Rounds: 10,
	}
	in.Reasons[0][1] = []string{"waiting for a CPU 41 % (others 2 %)"}
	ordinary := pairs.Node{Effect: pairs.Effect{Low: -0.05, High: 0.05}, Verdict: pairs.Ordinary, P: 1}
	in.Paths = []pairs.Result{{
		Network: pairs.Pod, Center: 60e-6, NodeLimit: 0.0488, Apart: []int{2},
		Nodes: []pairs.Node{ordinary, {
			Effect: pairs.Effect{Estimate: 0.4, Low: 0.3, High: 0.5}, Verdict: pairs.Slow, P: 0.01,
			OrLink: &pairs.Meeting{Client: 0, Server: 2},
		}, ordinary},
		Links: []pairs.Link{{
			Meeting: pairs.Meeting{Client: 0, Server: 2}, Effect: pairs.Effect{Estimate: -0.5, Low: -0.6, High: -0.4},
			Verdict: pairs.Fast, P: 0.01, Seconds: 40e-6, OrNode: new(1),
		}},
	}, {
		Network: pairs.Pod, Bulk: true, Center: 1. / 1024, NodeLimit: 0.0488, Nodes: []pairs.Node{ordinary, {
			Effect: pairs.Effect{Estimate: 0.7, Low: 0.6, High: 0.8}, Verdict: pairs.Slow, P: 0.01,
		}, ordinary},
		Links: []pairs.Link{{
			Meeting: pairs.Meeting{Client: 0, Server: 1}, Effect: pairs.Effect{Low: -0.1, High: 0.1}, Verdict: pairs.Ordinary, P: 1,
			Seconds: 1. / 512,
		}},
	}}
	return in
}

func twenty() report.Input {
	in := of(20, 3)
	slow := func(m, n int, v odd.Verdict, ratio float64) {
		in.Judged.Findings[m][n] = odd.Finding{
			Verdict: v, Effect: math.Log(ratio), Low: math.Log(ratio * 0.97), High: math.Log(ratio * 1.03), P: 0.001, Noise: 0.02,
			Rounds: 10,
		}
	}
	slow(0, 4, odd.Slow, 0.89)
	in.Reasons[0][4] = []string{"stolen time 9 % (others 0.2 %)", "CPU frequency 2.1 GHz (others 2.9 GHz)"}
	slow(1, 4, odd.Slow, 2.6)
	slow(0, 7, odd.Fast, 1.2)
	slow(0, 9, odd.Unconfirmed, 0.93)
	slow(1, 10, odd.Suspect, 1.15)
	slow(1, 11, odd.Unsteady, 1.01)
	in.Judged.Findings[1][11].Noise = 0.31
	slow(0, 12, odd.Unclear, 0.96)
	in.Judged.Findings[0][12].Needs = 16
	in.Judged.Findings[0][13] = odd.Finding{Verdict: odd.NotMeasured}
	in.Judged.Findings[1][13] = odd.Finding{Verdict: odd.NotMeasured}
	in.Fleet.Outcomes[13] = fleet.Outcome{
		Node: "node14", Pass: 1, State: fleet.Gone, Reason: "evicted: the node was low on resource: memory", Rounds: 2,
		Run: in.Fleet.ID + "-14",
	}
	in.Fleet.Outcomes[2].Clock = 4200 * time.Millisecond
	in.Fleet.Outcomes = append(in.Fleet.Outcomes, fleet.Outcome{Node: "node5", Pass: 2, State: fleet.Done, Rounds: 5})
	in.Fleet.Outcomes[3].Admitted = []string{"a container istio-proxy was added"}
	in.Fleet.LeftOut = []fleet.Omission{{Node: "master1", Reason: "taint node-role.kubernetes.io/control-plane:NoSchedule"}}
	in.Paths = []pairs.Result{paths(20, "host", nil), paths(20, "pod", &pairs.Effect{Estimate: 0.3, Low: 0.25, High: 0.35})}
	return in
}

// paths are round trips of n nodes, one slow link and one slow node among them.
func paths(n int, network string, cost *pairs.Effect) pairs.Result {
	r := pairs.Result{Network: network, Center: 80e-6, NodeLimit: 0.0488, Zone: pairs.Effect{Estimate: 0.1, Low: 0.08, High: 0.12}, Cost: cost}
	for i := range n {
		node := pairs.Node{Effect: pairs.Effect{Estimate: 0, Low: -0.02, High: 0.02}, Verdict: pairs.Ordinary, P: 1}
		if i == 4 {
			node = pairs.Node{Effect: pairs.Effect{Estimate: 0.4, Low: 0.3, High: 0.5}, Verdict: pairs.Slow, P: 0.001}
		}
		r.Nodes = append(r.Nodes, node)
	}
	r.Links = append(r.Links, pairs.Link{
		Meeting: pairs.Meeting{Client: 1, Server: 2}, Effect: pairs.Effect{Estimate: 1, Low: 0.9, High: 1.1},
		Verdict: pairs.Slow, P: 0.002, Seconds: 220e-6,
	})
	const why = "UDP 10.1.2.3:7673: 2 requests in a row had no answer within 200ms"
	r.Losses = []pairs.Loss{{Meeting: pairs.Meeting{Client: 0, Server: 3}, Rounds: 8, Of: 8, Reason: why}}
	r.Silent = []pairs.Silence{{Node: 7, Rounds: 2, Of: 8, Reason: why}}
	for i := range n {
		for j := range i {
			if i == 2 && j == 1 || i == 3 && j == 0 {
				continue
			}
			r.Links = append(r.Links, pairs.Link{
				Meeting: pairs.Meeting{Client: i, Server: j}, Effect: pairs.Effect{Estimate: 0.01, Low: -0.1, High: 0.12},
				Verdict: pairs.Ordinary, P: 1, Seconds: 80e-6 * (1 + 0.02*float64((i+j)%9)),
			})
		}
	}
	return r
}

// pending is a fleet of which nothing is gathered yet.
func pending() report.Input {
	in := of(3, 1)
	in.Judged, in.Reasons, in.Metrics, in.Odd.Metrics = odd.Result{}, nil, nil, nil
	for i := range in.Fleet.Outcomes {
		in.Fleet.Outcomes[i] = fleet.Outcome{Node: in.Fleet.Outcomes[i].Node, Pass: 1, State: fleet.Running}
	}
	return in
}

// few is a fleet that had too few rounds, one node that is like no other, and pods that do not reach each other.
func few() report.Input {
	in := of(4, 1)
	in.Fleet.Nodes[3].Group = "other"
	nan := math.NaN()
	for m := range in.Judged.Findings {
		for n := range in.Judged.Findings[m] {
			in.Judged.Findings[m][n] = odd.Finding{Verdict: odd.NotMeasured, Effect: nan, Low: nan, High: nan, P: 1, Rounds: 3}
		}
		for g := range in.Judged.Groups[m] {
			in.Judged.Groups[m][g].Spread, in.Judged.Groups[m][g].Noise = nan, nan
		}
	}
	for n := range in.Fleet.Outcomes {
		in.Fleet.Outcomes[n].Rounds = 3
	}
	paths := pairs.Result{Network: pairs.Pod}
	for n := range in.Fleet.Nodes {
		paths.Silent = append(paths.Silent, pairs.Silence{Node: n, Rounds: 3, Of: 3, Reason: "UDP: no answer within 200ms"})
	}
	in.Paths = []pairs.Result{paths}
	return in
}

// kinds is a fleet of two kinds of nodes.
func kinds() report.Input {
	in := of(10, 1)
	in.Judged.Groups[0][0].Modes = [2][]int{{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9}}
	for n := range in.Judged.Findings[0] {
		in.Judged.Findings[0][n].Verdict = odd.Unclear
	}
	return in
}
