package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
)

// The command that a report gives plans the very same, also where the experiment says something else.
func TestRepeatedCommand(t *testing.T) {
	t.Parallel() // it asserts no time
	for name, args := range map[string][]string{
		"by default": {"lifecycle", "--blocks", "2"},
		"with everything": {
			"throughput", "--concurrency", "1,2", "--param", "iterations=1", "--param", "operations=create,start,kill,remove",
			"--blocks", "2", "--budget", "off", "--precision", "off", "--smallest", "rate=7%", "--primary", "rate",
			"--no-control", "--warmup", "0", "--washout", "20ms", "--trial-timeout", "50s", "--operation-timeout", "9s",
		},
		"with turns and another baseline": {
			"cpu", "--factor", "time=20ms,30ms", "--baseline", "native time=30ms", "--blocks", "1..2", "--interleave", "10ms",
			"--washout", "off", "--seed", "7",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestEnv(t)
			var d report.Document
			engines := strings.Join(usable(t, "native", "crun"), ",") // crun has an option that its name stands for
			decode(t, p.must(t, append([]string{"run", "--json", "--engine", engines}, args...)...).stdout, &d)
			words := shellWords(d.Runs[0].Plan.Command)
			if len(words) < 3 || words[0] != "tare" || words[1] != "run" {
				t.Fatalf("the command is %q", d.Runs[0].Plan.Command)
			}
			var again struct{ Plan bench.Plan }
			decode(t, p.must(t, append([]string{"plan", "--json"}, words[2:]...)...).stdout, &again)
			if diff := cmp.Diff(p.last(t).Header.Plan, again.Plan, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s plans another run (-stored +planned):\n%s", d.Runs[0].Plan.Command, diff)
			}
		})
	}
}

// shellWords are the words of a command as a shell reads it that knows single quotes.
func shellWords(command string) (words []string) {
	for i, part := range strings.Split(command, "'") {
		if isQuoted := i%2 == 1; isQuoted {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}
