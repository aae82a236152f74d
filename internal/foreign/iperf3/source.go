// Package iperf3 reads the JSON of iperf3's client. A file becomes a run, and each output in it a trial.
package iperf3

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
)

// Source reads what iperf3 prints with -J.
func Source() foreign.Source {
	return foreign.Source{Name: "iperf3", Doc: "(what its client printed with -J)", Read: read}
}

const hint = "give what the client of iperf3 printed with -J"

func read(in *foreign.Input) ([]foreign.Set, error) {
	return in.Each("result of iperf3", hint, readFile)
}

func readFile(f *foreign.File) ([]foreign.Set, error) {
	documents, err := f.Documents(hint)
	if err != nil {
		return nil, err
	}
	s := foreign.Set{
		Workload: "net-throughput", Subject: "network", Program: "iperf3", Metrics: metrics(),
	}
	for i := range documents {
		d := &documents[i]
		var o Output
		if err := d.Read(&o); err != nil {
			return nil, err
		}
		version, ok := strings.CutPrefix(o.Start.Version, "iperf ")
		if !ok {
			continue // it is of another program
		}
		if o.Start.Accepted != nil {
			return nil, d.Errorf("this is the output of a server, which does not know what was sent")
		}
		t, err := o.trial()
		if err != nil {
			return nil, d.Errorf("%w", err)
		}
		t.Where = fmt.Sprintf("%s:%d", d.File, d.Line)
		if len(s.Trials) == 0 {
			s.Version, s.Host = bench.Reason(version), o.host()
		}
		s.Trials = append(s.Trials, t)
	}
	if len(s.Trials) == 0 {
		return nil, nil
	}
	return []foreign.Set{s}, nil
}

// trial makes a trial of an output. iperf3 writes errors into it.
func (o *Output) trial() (foreign.Trial, error) {
	t := foreign.Trial{Levels: o.levels()}
	if at := o.Start.Time.Seconds; at > 0 && at < 1<<37 {
		t.Began = time.Unix(int64(at), 0).UTC()
	}
	if o.Error != "" {
		t.Failed = bench.Reason(strings.TrimPrefix(o.Error, "error - "))
		return t, nil
	}
	values, lacks := o.End.Values(o.Datagrams())
	if lacks != "" {
		return t, fmt.Errorf("it has no %s: it may be of a version before 3.6", lacks)
	}
	if s := o.End.Received.Seconds; s > 0 && s < 1e8 {
		t.Elapsed = time.Duration(s * float64(time.Second))
	}
	if values["throughput.rate"] == 0 {
		t.Failed = "nothing arrived"
		return t, nil
	}
	for name, v := range values {
		t.Set(name, v)
	}
	if n, ok := o.End.retransmits(); ok {
		t.Set("throughput.retransmits", n)
	}
	return t, nil
}

// levels are what was asked for, in the words of the workload net-throughput.
func (o *Output) levels() (all []bench.Label) {
	test := &o.Start.Test
	if test.Protocol == "" {
		return nil // there was no connection
	}
	direction := "up"
	switch {
	case test.Both > 0, o.End.ReceivedBack != nil: // older versions do not say what was asked for
		direction = "both"
	case test.Reverse > 0:
		direction = "down"
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	all = []bench.Label{
		foreign.Label("protocol", strings.ToLower(test.Protocol)),
		{Key: "streams", Value: number(test.Streams)},
		{Key: "direction", Value: direction},
		{Key: "size", Value: number(test.Block)},
	}
	if test.Bitrate > 0 {
		all = append(all, bench.Label{Key: "rate", Value: number(test.Bitrate / 8)})
	}
	if test.Omit > 0 {
		all = append(all, bench.Label{Key: "warmup", Value: number(test.Omit) + "s"})
	}
	if o.End.Congestion != "" {
		all = append(all, foreign.Label("congestion", o.End.Congestion))
	}
	return all
}

// host is the client's machine, as uname tells of it: "Linux NAME 6.1.0 … x86_64".
func (o *Output) host() (h bench.HostFacts) {
	words := strings.Fields(bench.Reason(o.Start.System))
	if len(words) < 3 || words[0] != "Linux" {
		return h
	}
	h.Hostname, h.Kernel = words[1], words[2]
	switch arch := words[len(words)-1]; arch {
	case "x86_64":
		h.Arch = "amd64"
	case "aarch64":
		h.Arch = "arm64"
	default:
		h.Arch = arch
	}
	return h
}

// metrics are those of the workload net-throughput that iperf3 tells, and its own.
func metrics() []bench.Metric {
	m := func(name, title, u string, better bench.Direction, scale bench.Scale, doc string) bench.Metric {
		return bench.Metric{
			Name: "throughput." + name, Title: title, Unit: u, Better: better, Role: bench.Detail, Scale: scale, Doc: doc,
		}
	}
	rate := m("rate", "throughput", "B/s", bench.Higher, bench.Ratio,
		"Bytes that the receiver read, per second, by its own count; the sum of both directions.")
	rate.Role = bench.Primary
	return []bench.Metric{
		rate,
		m("offered", "offered", "B/s", bench.Neither, bench.Ratio, "Bytes in the datagrams that were sent, per second."),
		m("loss", "datagrams lost", "1", bench.Lower, bench.Difference, "Share of the datagrams that did not arrive."),
		m("jitter", "jitter", "s", bench.Lower, bench.Difference,
			"Jitter (RFC 3550) at the end; the mean of both directions."),
		m("retransmits", "retransmits", "1", bench.Lower, bench.Difference, "Segments of TCP that were sent again."),
		m("client_cpu", "CPU of the client", "1", bench.Lower, bench.Difference,
			"User and system time of the client per second: 1 is one CPU."),
		m("server_cpu", "CPU of the server", "1", bench.Lower, bench.Difference,
			"User and system time of the server per second: 1 is one CPU."),
	}
}
