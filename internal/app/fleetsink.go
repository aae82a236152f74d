package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/cluster"
	"github.com/tare-bench/tare/internal/fleet/pairs"
	"github.com/tare-bench/tare/internal/store/record"
)

// errOtherRun is the error of records that are not those of the node's run.
var errOtherRun = errors.New("the log has another run than the one that was asked for")

// sink stores what was read of a node's run. What is wrong with the records is a cluster.BadRecords.
func (r *fleetRun) sink(ctx context.Context, p cluster.Part) (cluster.Stored, error) {
	r.takeTrips(p)
	if p.Network == pairs.Host {
		return cluster.Stored{}, nil
	}
	rounds, id, err := r.check(p)
	if id == "" || err != nil {
		return cluster.Stored{}, err
	}
	into := importing{store: r.store}
	err = into.read(ctx, record.NewSalvager(bytes.NewReader(p.Records))) // what was lost counts as failed
	if errors.Is(err, record.ErrDiffers) {
		err = &cluster.BadRecords{Err: errors.New("the run in the log is not as it was when it was read before")}
	}
	if err != nil {
		return cluster.Stored{}, err
	}
	return cluster.Stored{Run: id, Rounds: rounds}, nil
}

// check looks whether the records are those of the node's run, and counts its whole rounds. The ID is empty if there
// is nothing yet.
func (r *fleetRun) check(p cluster.Part) (rounds int, id string, err error) {
	f := &r.plan.Fleet
	var plan bench.Plan
	if err := json.Unmarshal([]byte(f.Source), &plan); err != nil {
		return 0, "", fmt.Errorf("the fleet's plan: %w", err)
	}
	want := f.Rounds
	if p.Pass == 2 {
		want = f.Confirm
	}
	plan = podPlan(plan, f.ID, p.Node, p.Pass, want)
	expected := fleet.RunID(f.ID, p.Pass, p.Node)
	trials := map[int]int{} // by block
	lines := record.NewSalvager(bytes.NewReader(p.Records))
	for {
		e, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			for block, n := range trials {
				if block >= 0 && n >= len(plan.Cells) {
					rounds++
				}
			}
			return rounds, id, nil
		case err != nil:
			return 0, "", &cluster.BadRecords{Err: err}
		case e.Header != nil && (id != "" || e.Header.ID != expected || !sameJSON(e.Header.Plan, plan)):
			return 0, "", &cluster.BadRecords{Err: errOtherRun}
		case e.Header != nil:
			id = e.Header.ID
		case e.Sample != nil && e.Sample.Outcome == bench.OK:
			trials[e.Sample.Trial.Block]++
		}
	}
}

// What is more than any node can have measured.
const (
	longestTrip  = 60 // seconds; of a MiB, too
	mostMeetings = 64 // in a round
)

// A source is whose round trips these are: a node's, as an index, in a network.
type source struct {
	node    int
	network string
}

// takeTrips takes the round trips that a node's pod has measured, in place of those that were read of it before. It
// takes them when all are there, because a large fleet has many.
func (r *fleetRun) takeTrips(p cluster.Part) {
	f := &r.plan.Fleet
	node := slices.IndexFunc(f.Nodes, func(n fleet.Node) bool { return n.Name == p.Node })
	if len(p.Trips) == 0 || !p.Final || p.Pass != 1 || node < 0 {
		return
	}
	if r.trips == nil {
		r.trips = map[source]bool{}
		for _, t := range f.Trips {
			r.trips[source{t.Client, t.Network}] = true
		}
	}
	own := source{node, p.Network}
	if r.trips[own] {
		f.Trips = slices.DeleteFunc(f.Trips, func(t pairs.Trip) bool { return own == source{t.Client, t.Network} })
	}
	r.trips[own] = true
	most := f.Rounds * min(len(f.Nodes), mostMeetings)
	if f.Throughput {
		most *= 2
	}
	for _, t := range p.Trips {
		timed := t.Seconds > 0 && t.Seconds < longestTrip
		if own == (source{t.Client, t.Network}) && t.Server >= 0 && t.Server < len(f.Nodes) && t.Server != node &&
			t.Round >= 0 && t.Round < f.Rounds && (f.Throughput || !t.Bulk) && slices.Contains(f.Networks, t.Network) &&
			(timed || t.Seconds == 0 && t.Lost != "") && most > 0 {
			f.Trips = append(f.Trips, t)
			most--
		}
	}
}
