// Package fleet renders what is known of a fleet: one screen, JSON, CSV, and a page.
package fleet

import (
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/odd"
	"github.com/tare-bench/tare/internal/fleet/pairs"
)

// An Input is everything that a report of a fleet is made of.
type Input struct {
	Fleet   fleet.Fleet
	Metrics []bench.Metric // those judged, in the order of Odd's
	Odd     odd.Input
	Judged  odd.Result
	// Reasons are why a node is what it is, by metric and node: counters of the host against its group, such as
	// "stolen time 9 % (others 0.2 %)". Nil where nothing is known.
	Reasons [][][]string
	// Paths are what round trips tell, one for each network; empty if none were measured.
	Paths []pairs.Result
	// Clocks is how far nodes' clocks are ahead by their round trips, in seconds: see pairs.Clocks.
	Clocks map[int]float64
}
