package net

import (
	"context"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/supervise"
)

// NewThroughput returns the workload of bytes per second; token is as in NewRTT.
func NewThroughput(token string) bench.Workload { return throughput{token} }

type throughput struct{ token string }

func (throughput) Name() string { return "net-throughput" }

func (throughput) Doc() string {
	return "Streams of bytes, or of datagrams, between a client outside and a server in the container."
}

// Networked implements bench.Networked.
func (throughput) Networked() {}

func (throughput) Metrics() []bench.Metric {
	m := func(name, title, u string, better bench.Direction, scale bench.Scale, doc string) bench.Metric {
		return bench.Metric{Name: name, Title: title, Unit: u, Better: better, Role: bench.Detail, Scale: scale, Doc: doc}
	}
	rate := m("throughput.rate", "network throughput", "B/s", bench.Higher, bench.Ratio,
		"Bytes that the receiving programs read in the measured time, without network headers, per second; "+
			"the sum of both directions.")
	rate.Role = bench.Primary
	all := []bench.Metric{
		rate,
		m("throughput.offered", "offered", "B/s", bench.Neither, bench.Ratio,
			"Bytes in the datagrams that were sent, from the beginning to the end of the stream, per second."),
		m("throughput.loss", "datagrams lost", "1", bench.Lower, bench.Difference,
			"Share of the sent datagrams, from the first to the last, that never arrived."),
		m("throughput.reordered", "datagrams out of order", "1", bench.Lower, bench.Difference,
			"Share of the received datagrams that arrived after one that was sent later."),
		m("throughput.jitter", "jitter", "s", bench.Lower, bench.Difference,
			"Mean deviation of the transit time from one datagram to the next (RFC 3550), at the end of the stream."),
		m("throughput.knee", "highest rate without loss", "B/s", bench.Higher, bench.Ratio,
			"Highest offered rate of datagrams at which at most 0.1 % were lost, found by bisection."),
		m("throughput.client_cpu", "CPU of the client", "1", bench.Lower, bench.Difference,
			"User and system time of the client per second of the measured time: 1 is one CPU."),
		m("throughput.server_cpu", "CPU of the server", "1", bench.Lower, bench.Difference,
			"User and system time of the server per second of the measured time: 1 is one CPU."),
	}
	return append(bench.WithStretches(all, "throughput.rate"), supervise.Counters()...)
}

func (throughput) Params() []bench.Param {
	return []bench.Param{
		{Name: "protocol", Default: "tcp", Valid: bench.OneOf("tcp", "udp"), Doc: "tcp or udp"},
		{Name: "streams", Default: "1", Valid: bench.Between(1, 64), Doc: "number of streams in each direction"},
		{Name: "direction", Default: "up", Valid: bench.OneOf("up", "down", "both"), Doc: "up: from the client to " +
			"the container; down: from the container to the client; both: both at once"},
		{
			Name: "time", Default: "1s", Valid: bench.DurationBetween(10*time.Millisecond, time.Hour),
			Doc: "measured time of a trial",
		},
		{
			Name: "warmup", Default: "200ms", Valid: bench.DurationBetween(0, time.Minute),
			Doc: "how long data flow before the " +
				"measured time",
		},
		{Name: "size", Default: "", Valid: allowEmpty(bench.Between(24, 1<<20)), Doc: "bytes of one write or one datagram; " +
			"empty: 131072 for tcp, 1440 for udp"},
		{Name: "rate", Default: "0", Valid: bench.Between(0, 1<<40), Doc: "with udp: bytes per second that each stream " +
			"offers; 0: as fast as possible"},
		{Name: "batch", Default: "yes", Valid: bench.OneOf("yes", "no"), Doc: "with udp: yes: many datagrams in " +
			"one system call, split by the kernel if it can; no: one datagram in each call"},
		{Name: "knee", Default: "no", Valid: bench.OneOf("no", "yes"), Doc: "with udp: yes: find the highest rate " +
			"that loses at most 0.1 %"},
		{Name: "pin", Default: "yes", Valid: bench.OneOf("yes", "no"), Doc: "yes: client and server run on " +
			"separate CPUs if there are two"},
		{Name: "tool", Default: "", Valid: allowEmpty(bench.OneOf("iperf3")), Doc: "iperf3: use this program of the " +
			"host, packed into an image, instead of the built-in load"},
	}
}

// Check implements bench.Workload.
func (w throughput) Check(_ context.Context, t bench.Task) error {
	return check(w, t, throughputTool(t.Params))
}

// CheckParams implements bench.ParamChecker.
func (w throughput) CheckParams(params map[string]string) error {
	return throughputTool(params).check(w.Params(), params)
}

func throughputTool(params map[string]string) *tool { return toolNamed(params["tool"], iperf3()) }

// TakesTurns implements bench.TurnTaker: datagrams do not, since they are lost where nobody waits.
func (throughput) TakesTurns(params map[string]string) bool {
	return params["tool"] == "" && params["protocol"] == "tcp"
}

// Setup implements bench.Fixturer.
func (w throughput) Setup(ctx context.Context, t bench.Task) (bench.Fixture, error) {
	s, err := setUp(ctx, t)
	if err != nil {
		return nil, err
	}
	if tool := throughputTool(t.Params); tool != nil {
		return s, tool.server(s)
	}
	options := selectParams(t.Params, "protocol", "streams", "direction", "time", "warmup", "size",
		"rate", "batch", "knee", "pin")
	return s.jobs(w.token, w.Name(), t.Params["protocol"], options), nil
}

// Run implements bench.Workload.
func (throughput) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	if s, ok := t.Fixture.(*fixture); ok {
		return s.measureWith(ctx, m, s.tool)
	}
	return supervise.RunTrial(ctx, t, m)
}
