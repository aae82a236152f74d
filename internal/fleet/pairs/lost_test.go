package pairs_test

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/fleet/pairs"
)

// What has no round trip is told: of the node if nobody had one with it, and otherwise of the link.
func TestLost(t *testing.T) {
	const nodes, rounds, reason = 5, 8, "2 requests in a row had no answer"
	in := pairs.Input{Nodes: make([]string, nodes), Zones: make([]string, nodes)}
	for round := range rounds {
		for i := range nodes {
			for j := range i {
				trip := pairs.Trip{Meeting: pairs.Meeting{Client: i, Server: j}, Round: round, Network: pairs.Pod}
				trip.Seconds = 1e-4 * (1 + 0.001*float64((7*i+3*j+round)%5))
				deadLink := i == 3 && j == 1
				deadNode := (i == 4 || j == 4) && round >= 6
				if deadLink || deadNode {
					trip.Seconds, trip.Lost = 0, reason
				}
				in.Trips = append(in.Trips, trip)
			}
		}
	}
	once := pairs.Trip{Meeting: pairs.Meeting{Client: 0, Server: 2}, Round: 2, Slot: 9, Network: pairs.Pod, Lost: "late"}
	in.Trips = append(in.Trips, once) // they met twice in that round, and the other time there was one
	all := pairs.Analyze(in)
	if len(all) != 1 {
		t.Fatalf("%d results, want that of one network", len(all))
	}
	r := all[0]
	link := pairs.Loss{Meeting: pairs.Meeting{Client: 1, Server: 3}, Rounds: rounds, Of: rounds, Reason: reason}
	if !reflect.DeepEqual(r.Losses, []pairs.Loss{link}) {
		t.Errorf("losses are %+v, want %+v", r.Losses, link)
	}
	node := pairs.Silence{Node: 4, Rounds: 2, Of: rounds, Reason: reason}
	if !reflect.DeepEqual(r.Silent, []pairs.Silence{node}) {
		t.Errorf("silent are %+v, want %+v", r.Silent, node)
	}
	if len(r.Links) != nodes*(nodes-1)/2-1 || slices.ContainsFunc(r.Links, func(l pairs.Link) bool {
		return l.Meeting == link.Meeting || math.IsNaN(l.Seconds) || l.Seconds < 1e-4 || l.Seconds > 1.01e-4
	}) {
		t.Errorf("links are %+v, want all but the dead one, with times", r.Links)
	}
	for i := range in.Trips {
		in.Trips[i].Seconds, in.Trips[i].Lost = 0, reason
	}
	if r := pairs.Analyze(in); len(r) != 1 || len(r[0].Silent) != nodes || len(r[0].Links) != 0 || r[0].Center != 0 {
		t.Errorf("with nothing but losses: %+v", r)
	}
}

// A clock that is wrong is known, and those of the nodes that it met stay right. Of two, nobody knows whose is wrong.
func TestClocks(t *testing.T) {
	for _, ahead := range [][]float64{{0, 0, 7, 0}, {0, 0, -7, 0}, {0, 0, 7}, {0, -7, 0}, {0, 0, 0, 7, 0}, {0, 7}} {
		var trips []pairs.Trip
		want := map[int]float64{}
		for i := range ahead {
			if len(ahead) > 2 {
				want[i] = ahead[i]
			}
			for j := range i {
				trips = append(trips, pairs.Trip{
					Meeting: pairs.Meeting{Client: i, Server: j}, Ahead: ahead[j] - ahead[i], Within: 1e-4,
				})
			}
		}
		trips = append(trips, pairs.Trip{Meeting: pairs.Meeting{Client: 8, Server: 9}, Lost: "no answer"})
		if got := pairs.Clocks(trips); !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}
