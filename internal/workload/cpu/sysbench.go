package cpu

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/supervise"
)

var sysbench = supervise.Program{Name: "sysbench", Package: "package sysbench"}

// sysbenchJobs search the primes up to option prime. The score is the number of searches per second.
func sysbenchJobs(t bench.Task) []supervise.Job {
	return singleAndAll(t, func(threads, score string) supervise.Job {
		args := []string{
			"cpu", "--cpu-max-prime=" + t.Params["prime"], "--threads=" + threads, "--time=" + seconds(t), "--events=0", "run",
		}
		return sysbench.Job(t.Spec, args, func(output []byte) (*load.Report, error) {
			rate, ok := sysbenchRate(output)
			if !ok {
				return nil, sysbench.UnknownOutput(`line "events per second: NUMBER"`, output)
			}
			return report(map[string]float64{score: rate}), nil
		})
	})
}

// sysbenchRate finds the events per second in the output of sysbench 1.0.
func sysbenchRate(output []byte) (rate float64, ok bool) {
	for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
		if n, found := strings.CutPrefix(strings.TrimSpace(lines.Text()), "events per second:"); found {
			return positive(strings.TrimSpace(n))
		}
	}
	return 0, false
}

// positive reads a rate, which is above zero and finite.
func positive(text string) (rate float64, ok bool) {
	rate, err := strconv.ParseFloat(text, 64)
	return rate, err == nil && rate > 0 && rate < 1e18
}
