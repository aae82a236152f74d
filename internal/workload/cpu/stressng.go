package cpu

import (
	"bufio"
	"bytes"
	"math"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/supervise"
)

var stressNG = supervise.Program{Name: "stress-ng", Package: "package stress-ng"}

// stressJobs multiply matrices. They use one method, because the operations of
// different methods differ too much in length to be counted together. The score is
// the operations per second of real time.
func stressJobs(t bench.Task) []supervise.Job {
	return singleAndAll(t, func(threads, score string) supervise.Job {
		args := []string{
			"--cpu", threads, "--cpu-method", "matrixprod", "--timeout", seconds(t) + "s", "--metrics-brief", "--stdout",
		}
		return stressNG.Job(t.Spec, args, func(output []byte) (*load.Report, error) {
			rate, ok := stressRate(output)
			if !ok {
				return nil, stressNG.UnknownOutput(`line "metrc: [PID] cpu" with operations, three times and two rates`, output)
			}
			return report(map[string]float64{score: rate}), nil
		})
	})
}

// stressRate finds the operations per second of real time in the output of stress-ng.
// Only a heading names the columns, so stressRate checks their relation: the rate must
// be the operations divided by the seconds.
func stressRate(output []byte) (rate float64, ok bool) {
	for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		i := slices.Index(fields, "cpu")
		if i < 0 || len(fields) != i+7 || fields[0] != "stress-ng:" {
			continue
		}
		operations, ok1 := positive(fields[i+1])
		seconds, ok2 := positive(fields[i+2])
		rate, ok3 := positive(fields[i+5])
		return rate, ok1 && ok2 && ok3 && math.Abs(rate*seconds/operations-1) < 0.02
	}
	return 0, false
}
