package pairs_test

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/fleet/pairs"
)

// analyzed is the only network of a simulated fleet.
func analyzed(t *testing.T, w world) pairs.Result {
	t.Helper()
	w.noise = normal
	in, _ := w.measure(1)
	results := pairs.Analyze(in)
	if len(results) != 1 || results[0].Network != pairs.Pod {
		t.Fatalf("got %d networks, want pod alone", len(results))
	}
	return results[0]
}

// Of three nodes, tare says what looks the same.
func TestThreeNodes(t *testing.T) {
	r := analyzed(t, world{nodes: 3, rounds: 8, slowNode: 0.3})
	if n := r.Nodes[1]; n.Verdict != pairs.Slow || n.OrLink == nil || *n.OrLink != (pairs.Meeting{Client: 0, Server: 2}) {
		t.Errorf("node 1 is slow by 0.3: %+v", n)
	}
	if n, l := named(r); n != 1 || l != 0 {
		t.Errorf("%d nodes and %d links are named, want the node alone", n, l)
	}
	for _, i := range []int{0, 2} {
		if e := r.Nodes[i].Estimate; math.Abs(e) > 0.05 {
			t.Errorf("node %d has the effect %v beside the slow one, want about 0", i, e)
		}
	}
	r = analyzed(t, world{nodes: 3, rounds: 8, slowLink: 0.6})
	if l := linkOf(t, r, 0, 2); l.Verdict != pairs.Slow || l.OrNode == nil || *l.OrNode != 1 {
		t.Errorf("the link of 0 and 2 is slow by 0.6: %+v", l)
	}
	if n, l := named(r); n != 0 || l != 1 {
		t.Errorf("%d nodes and %d links are named, want the link alone", n, l)
	}
	r = analyzed(t, world{nodes: 3, rounds: 8})
	for i, n := range r.Nodes {
		if n.Verdict != pairs.Ordinary {
			t.Errorf("nothing is slow: node %d is %+v", i, n)
		}
	}
	r = analyzed(t, world{nodes: 3, rounds: 5, slowNode: 0.6})
	if n, l := named(r); n+l != 0 {
		t.Errorf("five rounds name %d nodes and %d links, want none", n, l)
	}
}

// Two nodes cannot be compared.
func TestTwoNodes(t *testing.T) {
	r := analyzed(t, world{nodes: 2, rounds: 8, slowNode: 0.6})
	if n, l := named(r); n+l != 0 || len(r.Links) != 1 || r.Links[0].Seconds <= 0 || r.Center != r.Links[0].Seconds {
		t.Errorf("got %+v, want one link and nobody named", r)
	}
}

// Where a zone looks like its nodes, they are not judged, and the others are.
func TestZonesThatLookLikeNodes(t *testing.T) {
	for _, c := range []struct {
		zones []string
		apart []int
		zone  bool
	}{
		{[]string{"a", "a", "a", "a", "b"}, []int{4}, false},
		{[]string{"a", "a", "b", "a", "b"}, []int{2, 4}, false},
		{[]string{"a", "a", "b"}, []int{2}, false},
		{[]string{"a", "b", "c"}, nil, false},
		{[]string{"a", "b", "c", ""}, nil, false},
		{[]string{"a", "a", "b", "b"}, []int{2, 3}, false},
		{[]string{"a", "a", "b", "b", "c", "c"}, nil, true},
		{[]string{"a", "a", "a", "b", "b", "b"}, nil, true},
		{[]string{"a", "a", "a", "b", "c"}, []int{3, 4}, false},
	} {
		r := analyzed(t, world{nodes: len(c.zones), rounds: 8, zones: c.zones, zone: 0.7})
		if !slices.Equal(r.Apart, c.apart) || (r.Zone.Estimate != 0) != c.zone {
			t.Errorf("%q: apart are %v, want %v; zone %+v", c.zones, r.Apart, c.apart, r.Zone)
		}
		if n, l := named(r); n+l != 0 && !slices.Contains(c.zones, "") {
			t.Errorf("%q: %d nodes and %d links are named", c.zones, n, l)
		}
		if c.zone && math.Abs(r.Zone.Estimate-0.7) > 0.1 {
			t.Errorf("%q: crossing zones adds %+v, want 0.7", c.zones, r.Zone)
		}
	}
}

// Some trips are missing, and others make no sense. Order means nothing.
func TestTripsThatCannotBeUsed(t *testing.T) {
	w := world{nodes: 8, rounds: 8, noise: normal, slowNode: 0.3, host: 0.2}
	in, _ := w.measure(1)
	want := pairs.Analyze(in)
	slices.Reverse(in.Trips)
	good := in.Trips[0]
	for _, change := range []func(*pairs.Trip){
		func(t *pairs.Trip) { t.Seconds = math.NaN() },
		func(t *pairs.Trip) { t.Seconds = 0 },
		func(t *pairs.Trip) { t.Seconds = math.Inf(1) },
		func(t *pairs.Trip) { t.Client = -1 },
		func(t *pairs.Trip) { t.Server = 8 },
		func(t *pairs.Trip) { t.Client = t.Server },
		func(t *pairs.Trip) { t.Network = "another" },
	} {
		bad := good
		change(&bad)
		in.Trips = append(in.Trips, bad)
	}
	if got := pairs.Analyze(in); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	in.Zones = nil
	in.Trips = slices.DeleteFunc(in.Trips, func(t pairs.Trip) bool {
		return t.Client == 5 || t.Server == 5 || t.Round == 2
	})
	r := pairs.Analyze(in)
	if n := r[0].Nodes[5]; n.Rounds != 0 || n.Verdict != pairs.Unclear || n.P != 1 || n.Effect != (pairs.Effect{}) {
		t.Errorf("a node without trips is %+v", n)
	}
	if n := r[0].Nodes[1]; n.Rounds != 7 || n.Verdict != pairs.Slow {
		t.Errorf("the slow node, in one round less, is %+v", n)
	}
	if c := r[0].Cost; c == nil || misses(*c, 0.2) || r[1].Cost != nil {
		t.Errorf("the pod network costs %+v, want 0.2", c)
	}
	if len(pairs.Analyze(pairs.Input{Nodes: in.Nodes})) != 0 {
		t.Error("no trips have a result")
	}
}
