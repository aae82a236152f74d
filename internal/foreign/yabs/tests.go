package yabs

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
)

func metric(name, title, unit string, role bench.Role, doc string) bench.Metric {
	better := bench.Higher
	if unit == "s" {
		better = bench.Lower
	}
	return bench.Metric{Name: name, Title: title, Unit: unit, Better: better, Role: role, Scale: bench.Ratio, Doc: doc}
}

func diskMetrics() []bench.Metric {
	const how = "fio: randrw with half of each, libaio, direct, 64 requests in flight of each of two jobs, for 30 s."
	return []bench.Metric{
		metric("mixed.iops", "mixed reads and writes", "1/s", bench.Primary, "Reads and writes per second; "+how),
		metric("mixed.rate", "mixed rate", "B/s", bench.Detail, "Bytes read and written per second; "+how),
		metric("mixed.read.iops", "mixed, reads", "1/s", bench.Detail, "Reads per second; "+how),
		metric("mixed.read.rate", "mixed, rate of reads", "B/s", bench.Detail, "Bytes read per second; "+how),
		metric("mixed.write.iops", "mixed, writes", "1/s", bench.Detail, "Writes per second; "+how),
		metric("mixed.write.rate", "mixed, rate of writes", "B/s", bench.Detail, "Bytes written per second; "+how),
	}
}

// disk makes a trial of each block size.
func (o *output) disk() (all []foreign.Trial) {
	for _, r := range o.FIO {
		t := foreign.Trial{Levels: levels("block", r.Block)}
		set(&t, "mixed.iops", r.IOPS, 1)
		set(&t, "mixed.read.iops", r.ReadIOPS, 1)
		set(&t, "mixed.write.iops", r.WriteIOPS, 1)
		if r.Units == "KBps" || r.Units == "" {
			// fio's terse output is in KiB/s, whatever YABS calls it.
			set(&t, "mixed.rate", r.Speed, 1024)
			set(&t, "mixed.read.rate", r.ReadSpeed, 1024)
			set(&t, "mixed.write.rate", r.WriteSpeed, 1024)
		}
		if len(t.Values) == 0 {
			t.Failed = "YABS has no result of fio"
		}
		all = append(all, t)
	}
	return all
}

func set(t *foreign.Trial, metric string, n number, unit float64) {
	if v, ok := n.known(); ok {
		t.Set(metric, v*unit)
	}
}

func networkMetrics() []bench.Metric {
	const how = "iperf3 with eight streams for ten seconds, by the receiver's count."
	return []bench.Metric{
		metric("internet.send", "throughput, sent", "B/s", bench.Primary, "Bytes sent to the server per second; "+how),
		metric("internet.receive", "throughput, received", "B/s", bench.Primary,
			"Bytes received from the server per second; "+how),
		metric("internet.rtt", "round trip", "s", bench.Detail, "One ping to the server."),
	}
}

// network makes a trial of each server. Since several can be of one provider, a server is called after its
// place, too.
func (o *output) network() (all []foreign.Trial) {
	for _, r := range o.IPerf {
		server := strings.TrimSpace(r.Provider + " " + r.Place)
		t := foreign.Trial{Levels: append(levels("mode", r.Mode), levels("server", server)...)}
		for name, text := range map[string]string{
			"internet.send": r.Send, "internet.receive": r.Receive, "internet.rtt": r.Latency,
		} {
			if v, ok := quantity(text); ok {
				t.Set(name, v)
			}
		}
		_, sent := t.Values["internet.send"]
		_, received := t.Values["internet.receive"]
		if !sent && !received {
			t.Failed = "the server was busy"
		}
		all = append(all, t)
	}
	return all
}

// quantity reads a number with one of YABS's units, such as "1.61 Gbits/sec", in bytes per second or
// seconds. What was not measured is "busy" or "--".
func quantity(text string) (v float64, ok bool) {
	f := strings.Fields(text)
	if len(f) != 2 {
		return 0, false
	}
	v, err := strconv.ParseFloat(f[0], 64)
	units := map[string]float64{
		"bits/sec": 1. / 8, "Kbits/sec": 1e3 / 8, "Mbits/sec": 1e6 / 8, "Gbits/sec": 1e9 / 8, "Tbits/sec": 1e12 / 8,
		"ms": 1e-3, "s": 1,
	}
	unit, known := units[f[1]]
	return v * unit, err == nil && known && v > 0 && v < 1e15
}

func scoreMetrics() []bench.Metric {
	return []bench.Metric{
		metric("geekbench.single", "Geekbench, one core", "1", bench.Primary, "Geekbench's score of one core."),
		metric("geekbench.multi", "Geekbench, all cores", "1", bench.Primary, "Geekbench's score of all cores."),
	}
}

// scores makes a trial of each version of Geekbench, whose scores are different things.
func (o *output) scores() (all []foreign.Trial) {
	for _, r := range o.Geekbench {
		version := foreign.Unknown
		if v, ok := r.Version.known(); ok {
			version = fmt.Sprint(v)
		}
		t := foreign.Trial{Levels: levels("version", version)}
		set(&t, "geekbench.single", r.Single, 1)
		set(&t, "geekbench.multi", r.Multi, 1)
		if len(t.Values) == 0 {
			t.Failed = "YABS has no scores"
		}
		all = append(all, t)
	}
	return all
}

// levels returns one level; what a file says is made one line of bounded length.
func levels(key, value string) []bench.Label {
	return []bench.Label{{Key: key, Value: bench.Reason(value)}}
}
