package net

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/supervise"
)

// sockperf measures round trips, for a time and not for a number of them. Its client
// cannot be pinned to a CPU: --sender-affinity does nothing in ping-pong.
func sockperf() *tool {
	return &tool{
		Program: supervise.Program{Name: "sockperf", Package: "package sockperf"},
		unknown: []string{"pings", "warmup", "timeout"},
		serverArgv: func(o toolOptions) []string {
			args := append([]string{"server", "-i", "0.0.0.0", "-p", fmt.Sprint(o.port)}, sockperfProtocol(o)...)
			if o.server != "" {
				args = append(args, "--cpu-affinity", o.server)
			}
			return args
		},
		readyLine: "to block on socket", lines: 5,
		clientArgv: sockperfClient,
		parse:      func(output []byte, _ toolOptions) (*load.Report, error) { return parseSockperf(output) },
	}
}

func sockperfProtocol(o toolOptions) []string {
	if o.has("protocol", "tcp") {
		return []string{"--tcp"}
	}
	return nil
}

func sockperfClient(o toolOptions, server netip.AddrPort) []string {
	args := []string{
		"ping-pong", "-i", server.Addr().String(), "-p", fmt.Sprint(server.Port()),
		"-m", o.params["size"], "-t", seconds(o.params["time"]), "--full-rtt",
	}
	args = append(args, sockperfProtocol(o)...)
	if !o.has("rate", "0") {
		args = append(args, "--mps="+o.params["rate"])
	}
	return args
}

// The lines of sockperf that are read, of versions 3.5 to 3.10. Some have colours.
var (
	sockperfCount   = regexp.MustCompile(`Total (\d{1,18}) observations`)
	sockperfMean    = regexp.MustCompile(`avg-rtt=\s*([0-9.]{1,20})`)
	sockperfLost    = regexp.MustCompile(`# dropped messages = (\d{1,18});`)
	sockperfMax     = regexp.MustCompile(`<MAX> observation =\s*([0-9.]{1,20})`)
	sockperfNothing = regexp.MustCompile(`No messages were received from the server`)
)

// parseSockperf reads the output of ping-pong with --full-rtt, in microseconds.
func parseSockperf(output []byte) (*load.Report, error) {
	if sockperfNothing.Match(output) {
		return nil, fmt.Errorf("sockperf: the server did not answer")
	}
	r := load.NewReport("sockperf")
	count, ok := number(sockperfCount, output)
	if !ok || count == 0 {
		return nil, sockperf().UnknownOutput(`line "Total N observations"`, output)
	}
	for name, form := range map[string]*regexp.Regexp{"rtt.mean": sockperfMean, "rtt.max": sockperfMax} {
		if err := microseconds(r, name, form, output); err != nil {
			return nil, err
		}
	}
	for name, p := range map[string]float64{"rtt.p50": 50, "rtt.p90": 90, "rtt.p99": 99, "rtt.p99.9": 99.9} {
		if count*(100-p)/100 < beyond {
			continue
		}
		form := regexp.MustCompile(fmt.Sprintf(`percentile %06.3f =\s*([0-9.]{1,20})`, p))
		if err := microseconds(r, name, form, output); err != nil {
			return nil, err
		}
	}
	lost, ok := number(sockperfLost, output)
	if !ok {
		return nil, sockperf().UnknownOutput(`words "# dropped messages"`, output)
	}
	r.Values["rtt.lost"] = lost
	return r, nil
}

// beyond is how many observations must lie beyond a percentile for it to be reported.
const beyond = 10

func microseconds(r *load.Report, name string, form *regexp.Regexp, output []byte) error {
	us, ok := number(form, output)
	if !ok || us <= 0 {
		return sockperf().UnknownOutput("value of "+name, output)
	}
	r.Values[name] = us / 1e6
	return nil
}

// number returns the number that form captures.
func number(form *regexp.Regexp, text []byte) (float64, bool) {
	found := form.FindSubmatch(text)
	if found == nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(found[1]), 64)
	return v, err == nil
}

// parseSeconds rounds a duration up to whole seconds.
func parseSeconds(text string) (int64, error) {
	d, err := time.ParseDuration(text)
	return int64(max(time.Second, d+time.Second-1) / time.Second), err
}
