package cli

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
)

const bottleneck = "the client was the bottleneck of b: it used all of its CPU time, but the server did not"

// wordsOfNotes are what is said of cell b where it is marked, by code: text, hint and metric.
var wordsOfNotes = map[string][3]string{
	"host-clock": {
		"processes in b do not share the host's clock, so times were measured from outside",
		"these times include the call to the engine; compare them only with cells that are marked too",
		"",
	},
	"damaged": {
		"stored trials of b are damaged and cannot be read: they count as failed, and no number includes them",
		"'tare check' names them; restore an older copy of the store if you have one",
		"",
	},
	"series-left-out": {
		"trials of b had too many operations to store each single value",
		"the numbers shown include all operations; only single values are missing from the store",
		"",
	},
	"lost-containers": {
		"some containers of b failed: they are counted, but no number includes their times",
		"use fewer at once, or run the same operations with workload lifecycle, which shows what failed",
		"",
	},
	"ended-early": {
		"the process in some containers of b had already exited before stop or kill was sent, so that " +
			"operation was not timed",
		"use a program that runs until it is stopped, or use wait instead of stop and kill",
		"",
	},
	"full": {
		"the host was filled with b until a container could not be started, or ended by itself",
		"here the number of containers is a result",
		"",
	},
	"same-cpu": {
		"client and server of b had to share a CPU",
		"the times include the other side's work: give tare and its containers at least two CPUs, and use " +
			"an engine that can pin containers to CPUs (cpuset)",
		"",
	},
	"client-bound": {
		bottleneck,
		"the container can do more than the numbers show; with more CPUs, more streams may help: " +
			"--param streams=N",
		"throughput.rate",
	},
	"load-bound": {
		bottleneck,
		"the server can do more than the numbers show: give the client more CPUs, or compare at a rate " +
			"that it can send (option rate)",
		"",
	},
	"closed-loop": {
		"the client of b waited for each answer before the next request (closed loop): while the server " +
			"stalls, the client sends nothing, so few times include the stall",
		"to include queueing delay, use an open loop: --param rate=N",
		"",
	},
	"rate-missed": {
		"more than 1 % of the requests due in b had no good answer before the end of the time",
		"the server or the client cannot keep this rate, so the times show the length of the queue, not " +
			"the speed of the server: lower the rate",
		"",
	},
	"failed-requests": {
		"requests of b failed: they are counted, but no time and no rate includes them",
		"see http.failed and its kinds",
		"",
	},
	"no-knee": {
		"datagrams of b were lost at every rate that was tried, so no rate without loss is known",
		"use longer trials, such as --param time=5s, or fewer streams",
		"",
	},
	"io-uring": {
		"b used I/O method io_uring, the first one that was allowed",
		"to fix the method, set --param io=io_uring",
		"",
	},
	"io-libaio": {
		"b used I/O method libaio, the first one that was allowed",
		"to fix the method, set --param io=libaio",
		"",
	},
	"io-threads": {
		"b used I/O method threads, the first one that was allowed",
		"to fix the method, set --param io=threads",
		"",
	},
	"not-a-disk": {
		"the data of b was in memory (tmpfs), not on a disk",
		"to measure a disk, use another storage, or set `data` to a directory on a disk",
		"",
	},
	"buffered-io": {
		"the file system of b has no direct I/O, so requests used the page cache",
		"compare only with cells that are marked too, or let all use the page cache: --param direct=no",
		"",
	},
	"odd": {
		"trials of b are marked odd",
		"this version of tare does not know this mark: see the documentation of the version that made the run",
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
	const ways = "the cells used different I/O methods (io_uring by b, c; libaio by a), " +
		"so methods and engines are confounded"
	last := differ[len(differ)-1]
	if last.Code != "io-differs" || last.Text != ways ||
		last.Hint != "choose a method that is allowed everywhere: --param io=libaio" {
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

// Advice names options as somebody types them for this workload: those of a survey begin with the part.
func TestAdviceNamesOptions(t *testing.T) {
	named := regexp.MustCompile(`(?:--param |\(option )([a-z0-9._-]+)`)
	for _, w := range app.Workloads() {
		known := map[string]bool{}
		for _, p := range w.Params() {
			known[p.Name] = true
		}
		for _, n := range app.NotesFor(w.Name()) {
			own, ok := w.(bench.Noter)
			if !ok || !slices.ContainsFunc(own.Notes(), func(o bench.Note) bool { return o.Code == n.Code }) {
				continue
			}
			advice := n.Advice
			if n.MixedChoices != nil {
				advice += " " + n.MixedChoices.Advice
			}
			advice = strings.ReplaceAll(advice, "PART.", "few.")
			for _, m := range named.FindAllStringSubmatch(advice, -1) {
				if !known[m[1]] {
					t.Errorf("workload %s has no option %s: %s", w.Name(), m[1], n.Advice)
				}
			}
		}
	}
	for workload, want := range map[string]string{
		"disk":   "choose a method that is allowed everywhere: --param io=libaio",
		"survey": "choose a method that is allowed everywhere: --param disk.io=libaio",
		"image":  "to include queueing delay, use an open loop: --param PART.rate=N (PART is few, many or rate)",
	} {
		if !slices.ContainsFunc(app.NotesFor(workload), func(n bench.Note) bool {
			return n.Advice == want || n.MixedChoices != nil && n.MixedChoices.Advice == want
		}) {
			t.Errorf("workload %s does not advise: %s", workload, want)
		}
	}
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
		if n.MixedChoices != nil {
			codes = append(codes, n.MixedChoices.Code)
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
