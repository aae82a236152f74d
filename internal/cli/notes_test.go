package cli

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
)

const bottleneck = "the client was the bottleneck in b: it used all of its CPU time, and the server did not"

// wordsOfNotes are what is said of cell b where it is marked, by code: text, hint and metric.
var wordsOfNotes = map[string][3]string{
	"host-clock": {
		"inside b the clock is another one, so times were taken from outside",
		"they include the way to the engine and back; compare them with cells that are marked too",
		"",
	},
	"damaged": {
		"trials of b cannot be read any more, because what was stored of them is damaged: they count as " +
			"failed, and are in no number",
		"'tare check' names them; if there is a copy of the store from before, take that",
		"",
	},
	"series-left-out": {
		"trials of b had too many single values to keep them all",
		"the numbers shown are made of all; only single values are missing from what is stored",
		"",
	},
	"lost-containers": {
		"some containers of b failed: they are counted, and their times are in no number",
		"see why: take fewer at once, or run the same operations with workload lifecycle, which says " +
			"what failed",
		"",
	},
	"ended-early": {
		"the process in some containers of b had ended before stop or kill came: there was nothing to " +
			"end, and it has no time",
		"give it a program that runs until it is ended, or write wait in place of stop and kill",
		"",
	},
	"full": {
		"b was filled until a container could not be started, or ended by itself",
		"the number of containers is a result here",
		"",
	},
	"same-cpu": {
		"client and server of b had to share a CPU",
		"their work is in one another's times: give tare and its containers two CPUs at least, and take " +
			"an engine that keeps containers to some (cpuset)",
		"",
	},
	"client-bound": {
		bottleneck,
		"the container can do more than is shown: the numbers are those of the client, and more streams " +
			"may help where there are more CPUs",
		"throughput.rate",
	},
	"load-bound": {
		bottleneck,
		"the server can do more than is shown: give the client more CPUs, or compare at a rate that it " +
			"can keep (option rate)",
		"",
	},
	"closed-loop": {
		"the client of b waited for each answer before it sent the next request (closed loop): while a " +
			"server stalls nothing is sent, so that a stall is in few of the times",
		"to see what those would wait who came meanwhile, send at a rate (option rate)",
		"",
	},
	"rate-missed": {
		"in b more than 1 % of the requests that were due had no good answer before the end of the time",
		"the server, or the client, cannot keep this rate: the times say how long a queue became, and " +
			"not how quick the server is",
		"",
	},
	"failed-requests": {
		"requests of b failed: they are counted, and are in no time and no rate",
		"see http.failed and the kinds below it",
		"",
	},
	"no-knee": {
		"at every rate that was tried, some datagrams of b were lost: no rate is known to be without loss",
		"give each trial more time, or send fewer at once: --param time=5s",
		"",
	},
	"io-uring": {
		"b handed requests to the kernel with io_uring, the first way that was allowed",
		"name it to be sure of it: --param io=io_uring",
		"",
	},
	"io-libaio": {
		"b handed requests to the kernel with libaio, the first way that was allowed",
		"name it to be sure of it: --param io=libaio",
		"",
	},
	"io-threads": {
		"b handed requests to the kernel with threads, the first way that was allowed",
		"name it to be sure of it: --param io=threads",
		"",
	},
	"not-a-disk": {
		"the data of b was in memory (tmpfs) and not on a disk",
		"for a disk take another storage, or name a directory on one with `data`",
		"",
	},
	"buffered-io": {
		"the file system under b cannot do direct I/O: requests went through the page cache",
		"compare with cells that are marked too, or have all use the page cache: --param direct=no",
		"",
	},
	"odd": {
		"trials of b are marked odd",
		"see what the workload says about this mark",
		"",
	},
}

// What samples of a stored run are marked with has these words, whichever version marked
// them: a run keeps codes alone.
func TestWordsOfNotes(t *testing.T) {
	got := map[string][3]string{}
	for code := range wordsOfNotes {
		for _, w := range noted(t, map[int]string{1: code}) {
			got[w.Code] = [3]string{w.Text, w.Hint, w.Metric}
		}
	}
	if diff := cmp.Diff(wordsOfNotes, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	differ := noted(t, map[int]string{0: "io-libaio", 1: "io-uring", 2: "io-uring"})
	const ways = "not all cells handed their requests to the kernel in the same way (io_uring by b, c; libaio by a): " +
		"that and the engines are confounded"
	last := differ[len(differ)-1]
	if last.Code != "io-differs" || last.Text != ways || last.Hint != "choose one that is allowed everywhere: --param io=libaio" {
		t.Errorf("%+v", last)
	}
}

// noted are the warnings of a run in which some cells are marked with a note each.
func noted(t *testing.T, codes map[int]string) []bench.Warning {
	t.Helper()
	run := analysistest.Run(analysistest.Shape{
		Seed: 4, Blocks: 40, Metrics: analysistest.Lifecycle()[:1],
		Cells: []analysistest.Cell{{Name: "a"}, {Name: "b", Factor: 2}, {Name: "c", Factor: 3}},
	})
	for i := range run.Samples {
		if code := codes[run.Samples[i].Trial.Cell]; code != "" {
			run.Samples[i].Notes = []string{code}
		}
	}
	r, err := analysis.Analyze(run, analysis.Options{Notes: bench.NotesOf(app.Workloads()...)})
	if err != nil {
		t.Fatal(err)
	}
	return r.Warnings
}

// Every code that a report can have is documented.
func TestNotesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/report-format.md")
	if err != nil {
		t.Fatal(err)
	}
	all := bench.NotesOf(app.Workloads()...)
	var codes []string
	for _, n := range all {
		codes = append(codes, n.Code)
		if n.Ways != nil {
			codes = append(codes, n.Ways.Code)
		}
		if n.Text == "" || n.Advice == "" || !strings.Contains(n.Text, "{cells}") {
			t.Errorf("note %q has no words for what it marks", n.Code)
		}
	}
	slices.Sort(codes)
	for _, code := range slices.Compact(codes) {
		if !strings.Contains(string(page), "`"+code+"`") {
			t.Errorf("the code %q is not documented", code)
		}
	}
}
