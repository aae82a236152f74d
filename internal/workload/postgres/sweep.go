package postgres

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/supervise"
)

// A step is what one number of clients gave.
type step struct {
	clients int
	report  *load.Report
	server  time.Duration // CPU time of the server since the step before; 0 = unknown
	memory  int64         // of the server at its end, in bytes; 0 = unknown, as in a sweep
	inside  *supervise.Counts
}

// transactions is how many the server had to do, also those of the warm-up, which it counts: failed is without them.
func (s step) transactions() float64 { return transactionsOf(s.report) }

func transactionsOf(r *load.Report) float64 { return r.Values["committed"] + r.Values["refused"] }

// order are the numbers of clients of a part, one after the other. Those of a sweep are in an order that is drawn for
// each block and part, the same in all cells of a block: in a fixed one, what grows or warms up from step to step would
// look like an effect of the number of clients.
func (p part) order() []int {
	if p.sweep == nil {
		return []int{p.clients}
	}
	const stream = 0x7377_6565_70 // "sweep"
	drawn := slices.Clone(p.sweep)
	rand.New(rand.NewPCG(p.seed, stream)).Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
	return drawn
}

// stepSuffix is what the names of metrics of a number of clients end with.
func stepSuffix(clients int) string { return fmt.Sprintf(".c%d", clients) }

// sweptMetrics are those that each step of a sweep has.
func sweptMetrics() []string { return []string{Rate, Median, "time.p99", clientCPU} }

// isOfStep reports whether a metric of a part tells of one number of clients. Without that number a sweep does not have
// it: which step is the fastest differs from cell to cell, and times with few clients are not comparable with those of
// many.
func isOfStep(metric string) bool {
	for _, prefix := range []string{"time.", "connect.", "stmt."} {
		if strings.HasPrefix(metric, prefix) {
			return true
		}
	}
	return slices.Contains([]string{transactions, offered, clientCPU, memoryLoad, checkpoint}, metric)
}

// sumUp makes one report of the steps of a sweep: the highest rate, what adds up, and the rates and times of each.
func sumUp(steps []step) *load.Report {
	best := slices.MaxFunc(steps, byRate).report
	all := *best
	all.Series, all.Distributions, all.Notes, all.Measured = nil, nil, nil, 0
	all.Values = map[string]float64{Rate: best.Values[Rate], "knee": float64(knee(steps))}
	for _, s := range steps {
		all.Measured += s.report.Measured
		for name, value := range s.report.Values {
			switch {
			case isCounted(name):
				all.Values[name] += value
			case slices.Contains(sweptMetrics(), name):
				all.Values[name+stepSuffix(s.clients)] = value
			}
		}
		for _, note := range s.report.Notes {
			if !slices.Contains(all.Notes, note) {
				all.Notes = append(all.Notes, note)
			}
		}
	}
	return &all
}

// isCounted reports whether a value of a report adds up over the steps: all transactions of a sweep were committed, or
// have failed.
func isCounted(name string) bool {
	return slices.Contains([]string{"committed", "delta", "refused", failed}, name) || strings.HasPrefix(name, failed+".")
}

// knee returns the fewest clients that reach about the highest rate of a sweep.
func knee(steps []step) (clients int) {
	const share = 0.95
	highest := 0.0
	for _, s := range steps {
		highest = max(highest, s.report.Values[Rate])
	}
	for _, s := range steps {
		if s.report.Values[Rate] >= share*highest && (clients == 0 || s.clients < clients) {
			clients = s.clients
		}
	}
	return clients
}

func byRate(a, b step) int { return cmp.Compare(a.report.Values[Rate], b.report.Values[Rate]) }
