package hostsuite

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// A rule finds a metric by the words of a path. Hardly any of the script's names is known, and they have
// changed, so a rule asks for what the name says and not for the name.
type rule struct {
	metric string
	all    [][]string // the path has a word of each of these
	none   []string   // and none of these
	kind   kind
}

// A kind is what a value can be.
type kind int

const (
	seconds  kind = iota // becomes seconds
	size                 // becomes bytes
	byteRate             // becomes bytes per second
	bitRate              // the same, and can be in bits: of a disk, Mbps is often written for megabytes
	plain                // stays as it is
)

func either(words ...string) []string { return words }

// memoryWords say that a value is about memory.
func memoryWords() []string { return either("memory", "mem", "ram") }

// rules are tried in this order; the first that fits is taken.
func rules() []rule {
	idle := either("idle", "baseline", "rest")
	mem := memoryWords()
	cpu := either("cpu", "sysbench")
	// What only a rate is called: events can also be how many there were.
	per, second := either("eps", "score", "per"), either("eps", "score", "second", "sec", "s")
	noRate := either("latency", "time")
	disk := either("disk", "fio", "storage")
	many := either("density", "scaling", "nginx", "containers", "services")
	engine := either("docker", "dockerd", "containerd", "daemon")
	// The mean of several is read, and not what else is told of them.
	mean := []string{"min", "max", "stddev", "p", "total", "count", "runs", "iterations"}
	return []rule{
		{"memory.ops", [][]string{mem, either("ops", "operations"), per, second}, noRate, plain},
		{"memory.rate", [][]string{mem, either("throughput", "bandwidth", "speed", "rate", "mibs", "mbs")}, nil, byteRate},
		{"compose.up", [][]string{either("compose"), either("up")}, append(either("down"), mean...), seconds},
		{"compose.down", [][]string{either("compose"), either("down")}, append(either("up"), mean...), seconds},
		{"build.total", [][]string{either("build"), either("no", "without"), either("cache")}, mean, seconds},
		{
			"build.total",
			[][]string{either("build")},
			append(either("cache", "cached", "warm", "rebuild", "incremental"), mean...), seconds,
		},
		{
			"density.memory", [][]string{many, mem, either("per", "each", "avg", "mean")}, nil, size,
		},
		{
			"density.fill",
			[][]string{many, either("start", "startup", "up", "launch", "fill")},
			append(either("memory", "mem", "limit", "stop", "down", "clean", "cleanup", "remove", "avg", "average", "mean",
				"median", "each", "per"), mean[:3]...), seconds,
		},
		{
			"idle.memory",
			[][]string{idle, mem},
			append(either("total", "free", "available"), engine...), size,
		},
		{"idle.memory.engine", [][]string{idle, engine, mem}, either("total", "limit", "image", "images"), size},
		{"idle.disk", [][]string{idle, either("disk", "storage")}, either("total", "free", "available"), size},
		{
			"start.total",
			[][]string{
				either("start", "startup", "starts", "lifecycle"),
				either("avg", "average", "mean", "median", "each", "ms", "seconds", "s", "time", "times"),
			},
			append(either("density", "scaling", "nginx", "services"), mean...), seconds,
		},
		{"cpu.single", [][]string{cpu, either("single", "1", "one"), per, second}, noRate, plain},
		{"cpu.all", [][]string{cpu, either("multi", "2", "two", "all"), per, second}, noRate, plain},
		{
			"disk.randwrite.iops",
			[][]string{either("iops"), either("disk", "fio", "io", "write", "randwrite", "storage")},
			either("read", "min", "max"), plain,
		},
		{
			"disk.randwrite.rate",
			[][]string{disk, either("bw", "bandwidth", "throughput", "rate", "mbs", "mibs")},
			either("read"), byteRate,
		},
		{
			"throughput.rate",
			[][]string{either("network", "net", "iperf", "iperf3")},
			either("retransmits", "retr", "port", "jitter"), bitRate,
		},
	}
}

// onThreads reports whether words say on how many threads something ran, and that is two or more: the number stands
// before or after the word.
func onThreads(words []string) bool {
	isMany := func(at int) bool {
		if at < 0 || at >= len(words) {
			return false
		}
		n, err := strconv.Atoi(words[at])
		return err == nil && n >= 2
	}
	for i, w := range words {
		if (w == "thread" || w == "threads") && (isMany(i-1) || isMany(i+1)) {
			return true
		}
	}
	return false
}

// fits reports whether a path with these words is of the rule's metric.
func (r *rule) fits(words []string) bool {
	has := func(of []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(of, w) })
	}
	for _, needed := range r.all {
		if !has(needed) {
			return false
		}
	}
	return !has(r.none)
}

// units are what one unit of each kind is. Of memory, the script's numbers come from free and df, whose MB
// are 2²⁰ bytes. Of rates, those in bits have powers of ten.
func (k kind) units() map[string]float64 {
	const kib, mib, gib = 1 << 10, 1 << 20, 1 << 30
	switch k {
	case seconds:
		return map[string]float64{
			"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "milliseconds": 1e-3, "msec": 1e-3, "s": 1, "sec": 1, "secs": 1,
			"second": 1, "seconds": 1,
		}
	case size:
		return map[string]float64{
			"b": 1, "bytes": 1, "kb": kib, "kib": kib, "mb": mib, "mib": mib, "m": mib, "gb": gib, "gib": gib, "g": gib,
		}
	case bitRate:
		return map[string]float64{
			"bps": 1. / 8, "kbps": 1e3 / 8, "mbps": 1e6 / 8, "gbps": 1e9 / 8, "mbit": 1e6 / 8, "mbits": 1e6 / 8, "gbit": 1e9 / 8,
			"gbits": 1e9 / 8, "bits": 1. / 8, "mibps": mib, "kibps": kib, "gibps": gib,
		}
	case byteRate:
		return map[string]float64{"mibps": mib, "kibps": kib, "gibps": gib}
	}
	return nil
}

// perSecond are the amounts of which so many a second are a rate.
func perSecond() map[string]float64 {
	return map[string]float64{
		"b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30,
	}
}

// unit finds what one of a value is: by the unit that is written after it, else by the last word of its
// path that is one. Counts need none.
func (k kind) unit(after string, words []string) (float64, bool) {
	if k == plain {
		return 1, true
	}
	units := k.units()
	if after = strings.ToLower(after); after != "" {
		first, rest, _ := strings.Cut(strings.ReplaceAll(after, "/", " "), " ")
		if (k == byteRate || k == bitRate) && strings.HasPrefix(rest, "s") { // such as MiB/sec
			if one, ok := perSecond()[first]; ok {
				return one, true
			}
		}
		one, ok := units[first]
		return one, ok
	}
	for _, w := range slices.Backward(words) {
		if one, ok := units[w]; ok {
			return one, true
		}
	}
	return 0, false
}

// metrics are what can be found. What tare's workload host measures too has its name, unit and scale, so that
// both can be compared; otherwise says how it differs.
func metrics() []bench.Metric {
	m := func(name, title, unit string, better bench.Direction, doc string) bench.Metric {
		return bench.Metric{
			Name: name, Title: title, Unit: unit, Better: better, Role: bench.Primary, Scale: bench.Ratio, Doc: doc,
		}
	}
	difference := func(m bench.Metric) bench.Metric { // of what can be 0 where tare measures it
		m.Scale = bench.Difference
		return m
	}
	const lower, higher = bench.Lower, bench.Higher
	return []bench.Metric{
		m("idle.memory", "memory in use at rest", "B", lower, "Memory in use by the account of free."),
		difference(m("idle.memory.engine", "memory of the engine at rest", "B", lower,
			"Resident memory of the engine's daemons.")),
		m("idle.disk", "disk in use at rest", "B", lower, "Used space of the file system of /."),
		m("start.total", "full lifecycle", "s", lower,
			"One call of docker run --rm, from its beginning to its end: the mean of many."),
		m("cpu.single", "compute, one thread", "1/s", higher, "Events per second of sysbench cpu on one thread."),
		m("cpu.all", "compute, several threads", "1/s", higher, "Events per second of sysbench cpu on two threads or more."),
		m("memory.rate", "memory", "B/s", higher, "Bytes per second of sysbench memory."),
		m("memory.ops", "memory, operations", "1/s", higher, "Operations per second of sysbench memory, one for each block."),
		m("disk.randwrite.iops", "random writes", "1/s", higher, "Writes of 4 KiB per second, by fio."),
		m("disk.randwrite.rate", "random writes, rate", "B/s", higher, "Bytes of random writes per second, by fio."),
		m("throughput.rate", "throughput", "B/s", higher, "Bytes per second between two containers, by iperf3."),
		difference(m("density.fill", "start of all", "s", lower, "Time to start all services.")),
		m("density.memory", "memory per container", "B", lower, "Memory of one service."),
		m("build.total", "build without cache", "s", lower, "One build of an image without a cache."),
		m("compose.up", "compose up", "s", lower, "One compose up of three services."),
		m("compose.down", "compose down", "s", lower, "One compose down of three services."),
	}
}

// otherwise lists the metrics that tare has too and the script measures in another way, with that way.
func otherwise() [][2]string {
	return [][2]string{
		{"idle.memory", "with the script itself"},
		{"idle.memory.engine", "resident, so that shared pages count in full"},
		{"start.total", "a whole call of the command docker run"},
		{"density.fill", "services of nginx"},
		{"density.memory", "services of nginx, where tare's only wait"},
		{"build.total", "a build file of its own"},
		{"compose.up", "services of its own"},
		{"compose.down", "services of its own"},
	}
}
