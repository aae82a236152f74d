package net

import (
	"context"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/supervise"
)

// NewRTT returns the workload of round trips. Client and server show one another the
// token, which has 16 to 128 letters and digits. Workloads with the same token can share
// a server.
func NewRTT(token string) bench.Workload { return rtt{token} }

type rtt struct{ token string }

func (rtt) Name() string { return "net-rtt" }

func (rtt) Doc() string {
	return "One request after the other from a client outside to a server in the container, which returns the same " +
		"bytes."
}

// Networked implements bench.Networked.
func (rtt) Networked() {}

func (rtt) Metrics() []bench.Metric {
	m := func(name, title, which string, role bench.Role) bench.Metric {
		return bench.Metric{
			Name: name, Title: title, Unit: "s", Better: bench.Lower, Role: role, Scale: bench.Ratio,
			Doc: which +
				" over the requests of a trial: from just before the client sends a request (with a rate: from " +
				"when it was due) until it has the complete answer.",
		}
	}
	all := []bench.Metric{
		m("rtt.p50", "round trip, median", "Median", bench.Primary),
		m("rtt.p90", "round trip, p90", "90th percentile", bench.Detail),
		m("rtt.p99", "round trip, p99", "99th percentile", bench.Primary),
		m("rtt.p99.9", "round trip, p99.9", "99.9th percentile", bench.Detail),
		m("rtt.max", "round trip, max", "Maximum", bench.Detail),
		m("rtt.mean", "round trip, mean", "Mean", bench.Detail),
		{
			Name: "rtt.lost", Title: "lost requests", Unit: "1", Better: bench.Lower,
			Role: bench.Detail, Scale: bench.Difference,
			Doc: "Datagrams of a trial whose answer did not come in time. No other number includes them.",
		},
	}
	return append(bench.WithStretches(all, "rtt.p50", "rtt.p99"), supervise.Counters()...)
}

func (rtt) Params() []bench.Param {
	return []bench.Param{
		{Name: "protocol", Default: "udp", Valid: bench.OneOf("udp", "tcp"), Doc: "udp or tcp"},
		{Name: "size", Default: "64", Valid: bench.Between(24, 65_507), Doc: "bytes of a request and of its answer"},
		{Name: "pings", Default: "20000", Valid: bench.Between(1000, 1_000_000_000), Doc: "number of requests of a trial"},
		{Name: "rate", Default: "0", Valid: bench.Between(0, 1_000_000), Doc: "requests per second, sent when they are " +
			"due and timed from then; 0: each request follows the answer to the last one"},
		{Name: "warmup", Default: "1000", Valid: bench.Between(0, 1_000_000), Doc: "number of requests that are sent " +
			"first and not counted"},
		{
			Name: "timeout", Default: "1s", Valid: bench.DurationBetween(time.Millisecond, 10*time.Second),
			Doc: "time after which " +
				"a datagram counts as lost",
		},
		{Name: "pin", Default: "yes", Valid: bench.OneOf("yes", "no"), Doc: "yes: client and server run on " +
			"separate CPUs if there are two"},
		{
			Name: "time", Default: "1s", Valid: bench.DurationBetween(time.Second, time.Hour),
			Doc: "length of a run of sockperf, " +
				"in whole seconds; sockperf takes no number of requests",
		},
		{Name: "tool", Default: "", Valid: allowEmpty(bench.OneOf("sockperf")), Doc: "sockperf: use this program of " +
			"the host, packed into an image, instead of the built-in load"},
	}
}

// Check implements bench.Workload.
func (w rtt) Check(_ context.Context, t bench.Task) error { return check(w, t, rttTool(t.Params)) }

// CheckParams implements bench.ParamChecker.
func (w rtt) CheckParams(params map[string]string) error {
	return rttTool(params).check(w.Params(), params)
}

func rttTool(params map[string]string) *tool { return toolNamed(params["tool"], sockperf()) }

// TakesTurns implements bench.TurnTaker: with a rate, requests are due at fixed times.
func (rtt) TakesTurns(params map[string]string) bool {
	return params["tool"] == "" && params["rate"] == "0"
}

// Setup implements bench.Fixturer.
func (w rtt) Setup(ctx context.Context, t bench.Task) (bench.Fixture, error) {
	s, err := setUp(ctx, t)
	if err != nil {
		return nil, err
	}
	if tool := rttTool(t.Params); tool != nil {
		return s, tool.server(s)
	}
	options := selectParams(t.Params, "protocol", "size", "pings", "rate", "warmup", "timeout", "pin")
	return s.jobs(w.token, w.Name(), t.Params["protocol"], options), nil
}

// Run implements bench.Workload.
func (rtt) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	if s, ok := t.Fixture.(*fixture); ok {
		return s.measureWith(ctx, m, s.tool)
	}
	return supervise.RunTrial(ctx, t, m)
}
