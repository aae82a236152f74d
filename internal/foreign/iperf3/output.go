package iperf3

import (
	"math"
	"strings"
)

// An Output is the part that is read of what iperf3 prints with -J, of version 3.6 and later.
type Output struct {
	Error string `json:"error"`
	Start Start  `json:"start"`
	End   End    `json:"end"`
}

// Start is what was asked for.
type Start struct {
	Version string `json:"version"` // such as "iperf 3.12"
	System  string `json:"system_info"`
	Time    struct {
		Seconds float64 `json:"timesecs"` // since 1970
	} `json:"timestamp"`
	Accepted *struct{} `json:"accepted_connection"` // of a server
	Test     struct {
		Protocol string  `json:"protocol"`
		Streams  float64 `json:"num_streams"`
		Block    float64 `json:"blksize"` // bytes
		Reverse  float64 `json:"reverse"`
		Both     float64 `json:"bidir"`
		Bitrate  float64 `json:"target_bitrate"` // bits per second; 0 = no limit
		Omit     float64 `json:"omit"`           // seconds
	} `json:"test_start"`
}

// End is the results of one direction and, with --bidir, of the other.
type End struct {
	Sent         *Sum `json:"sum_sent"`
	Received     *Sum `json:"sum_received"`
	SentBack     *Sum `json:"sum_sent_bidir_reverse"`
	ReceivedBack *Sum `json:"sum_received_bidir_reverse"`
	CPU          struct {
		Client *float64 `json:"host_total"` // percent
		Server *float64 `json:"remote_total"`
	} `json:"cpu_utilization_percent"`
	Congestion string `json:"sender_tcp_congestion"`
}

// A Sum is that of all streams in one direction.
type Sum struct {
	Bytes       float64  `json:"bytes"`
	Seconds     float64  `json:"seconds"`
	Retransmits *float64 `json:"retransmits"`
	Jitter      float64  `json:"jitter_ms"`
	Lost        float64  `json:"lost_packets"`
	Packets     float64  `json:"packets"`
}

// Datagrams reports whether iperf3 says that it used UDP.
func (o *Output) Datagrams() bool { return strings.EqualFold(o.Start.Test.Protocol, "udp") }

// Values are the results by the metrics of the workload net-throughput. Without them, lacks says what is
// missing.
func (e *End) Values(datagrams bool) (values map[string]float64, lacks string) {
	if e.Sent == nil || e.Received == nil || e.CPU.Client == nil || e.CPU.Server == nil {
		return nil, "sum_sent, sum_received and cpu_utilization_percent"
	}
	sent, came := []*Sum{e.Sent}, []*Sum{e.Received}
	if e.SentBack != nil && e.ReceivedBack != nil {
		sent, came = append(sent, e.SentBack), append(came, e.ReceivedBack)
	}
	values = map[string]float64{
		"throughput.rate": rateOf(came), "throughput.client_cpu": *e.CPU.Client / 100,
		"throughput.server_cpu": *e.CPU.Server / 100,
	}
	if datagrams {
		values["throughput.offered"] = rateOf(sent)
		values["throughput.loss"], values["throughput.jitter"] = datagramsOf(came)
	}
	for name, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return nil, "possible " + name
		}
	}
	return values, ""
}

// rateOf sums bytes per second.
func rateOf(sums []*Sum) (rate float64) {
	for _, s := range sums {
		rate += s.Bytes / s.Seconds
	}
	return rate
}

// datagramsOf returns the share of lost datagrams, and the mean jitter in seconds.
func datagramsOf(came []*Sum) (loss, jitter float64) {
	var lost, all float64
	for _, s := range came {
		lost += max(0, s.Lost) // late datagrams can make it negative
		all += s.Packets
		jitter += s.Jitter / 1000 / float64(len(came))
	}
	return lost / all, jitter
}

// retransmits are those of all directions; iperf3 knows them on Linux with TCP.
func (e *End) retransmits() (n float64, ok bool) {
	for _, s := range []*Sum{e.Sent, e.SentBack} {
		if s != nil && s.Retransmits != nil {
			n, ok = n+*s.Retransmits, true
		}
	}
	return n, ok && n >= 0
}
