package analysis_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
)

// machineMetrics are those that warnings look at, zero unless a test says otherwise.
func machineMetrics() []bench.Metric {
	m := analysistest.Lifecycle()[:1]
	for _, name := range []string{
		"host.steal_time", "host.memory_pressure_full", "host.running", "host.blocked", "cgroup.throttled_time",
	} {
		m = append(m,
			bench.Metric{Name: name, Title: name, Unit: "s", Role: bench.State, Scale: bench.Difference, Better: bench.Neither})
	}
	return m
}

// clean is a run of three cells without a warning.
func clean(blocks int) *bench.Run {
	run := analysistest.Run(analysistest.Shape{
		Seed: 4, Blocks: blocks, Metrics: machineMetrics(), Cells: []analysistest.Cell{
			{Name: "a"}, {Name: "b", Factor: 2}, {Name: "c", Factor: 3},
		},
	})
	for i := range run.Samples {
		clear(run.Samples[i].Values[1:])
	}
	return run
}

// TestFailuresAreCounted checks that whoever reads that something failed learns how often, and of what.
func TestFailuresAreCounted(t *testing.T) {
	part := func(name string) bench.PartOutcome {
		return bench.PartOutcome{Part: name, Outcome: bench.Failed, Reason: "no space left"}
	}
	run := clean(40)
	for i := range run.Samples {
		s := &run.Samples[i]
		switch {
		case s.Trial.Cell == 1 && s.Trial.Block < 3:
			s.Parts = []bench.PartOutcome{part("disk")}
		case s.Trial.Cell == 2 && s.Trial.Block < 2:
			s.Parts = []bench.PartOutcome{part("cpu"), part("memory")}
		}
	}
	r := analyze(t, run)
	const others = "; the other parts were measured: no space left"
	want := []string{
		"parts cpu, memory failed in 2 of 40 trials of c and have no value there" + others,
		"part disk failed in 3 of 40 trials of b and has no value there" + others,
	}
	var got []string
	for _, w := range r.Warnings {
		got = append(got, w.Text)
	}
	if diff := cmp.Diff(want, got); diff != "" || r.Trust.Why != "parts of 5 trials of b, c failed" {
		t.Errorf("trust %q; (-want +got):\n%s", r.Trust.Why, diff)
	}
	run = clean(40)
	for i := range run.Samples {
		if s := &run.Samples[i]; s.Trial.Cell == 1 && s.Trial.Block < 4 {
			s.Outcome, s.Values = bench.TimedOut, nil
		}
	}
	if r := analyze(t, run); r.Trust.Why != "4 trials of b did not succeed" {
		t.Errorf("trust %q", r.Trust.Why)
	}
}

// TestWarnings spoils a clean run in one way at a time.
func TestWarnings(t *testing.T) {
	every := func(run *bench.Run, do func(i int, s *bench.Sample)) {
		for i := range run.Samples {
			do(i, &run.Samples[i])
		}
	}
	set := func(metric int, v float64, of int) func(run *bench.Run) {
		return func(run *bench.Run) {
			every(run, func(i int, s *bench.Sample) {
				if i%of == 0 {
					s.Values[metric] = v
				}
			})
		}
	}
	// noted marks the trials of the first two cells.
	noted := func(notes ...string) func(run *bench.Run) {
		return func(run *bench.Run) {
			every(run, func(_ int, s *bench.Sample) {
				if c := s.Trial.Cell; c < len(notes) && notes[c] != "" {
					s.Notes = []string{notes[c]}
				}
			})
		}
	}
	// parts has parts of the first cells fail.
	parts := func(failed ...bench.PartOutcome) func(run *bench.Run) {
		return func(run *bench.Run) {
			every(run, func(_ int, s *bench.Sample) {
				if c := s.Trial.Cell; c < len(failed) {
					s.Parts = []bench.PartOutcome{failed[c]}
				}
			})
		}
	}
	failed := func(part, workload, why string) bench.PartOutcome {
		return bench.PartOutcome{Part: part, Workload: workload, Outcome: bench.Failed, Reason: why}
	}
	fail := func(s *bench.Sample, o bench.Outcome) { s.Outcome, s.Values = o, nil }
	for _, tt := range []struct {
		name   string
		blocks int
		spoil  func(run *bench.Run)
		want   []string
		hint   string // part of that of the last
		cells  []int  // of the last
	}{
		{"clean", 40, func(*bench.Run) {}, nil, "", nil},
		{"incomplete", 40, func(r *bench.Run) { r.End = nil }, []string{analysis.CodeIncomplete}, "tare resume 2026", nil},
		{"of doctor", 40, func(r *bench.Run) { r.Header.Warnings = []bench.Warning{{Code: "governor"}} }, []string{"governor"}, "", nil},
		{"failed", 40, func(r *bench.Run) { fail(&r.Samples[7], bench.TimedOut) }, []string{analysis.CodeFailed}, "", nil},
		{"failed while warming up", 40, func(r *bench.Run) {
			r.Samples = append([]bench.Sample{{Trial: bench.Trial{Block: -1, Cell: 2}, Outcome: bench.Failed}}, r.Samples...)
		}, []string{analysis.CodeFailed}, "", []int{2}},
		{"few samples", 5, func(*bench.Run) {}, []string{analysis.CodeFewSamples}, "--blocks", []int{0, 1, 2, 3}},
		{"few samples, out of time", 5, func(r *bench.Run) { r.End.Reason = bench.StopBudget }, []string{analysis.CodeFewSamples}, "--budget 10s", []int{0, 1, 2, 3}},
		{"few samples, incomplete", 5, func(r *bench.Run) {
			r.End = nil
		}, []string{analysis.CodeIncomplete, analysis.CodeFewSamples}, "finish the run", []int{0, 1, 2, 3}},
		{"few samples for failures", 12, func(r *bench.Run) {
			every(r, func(_ int, s *bench.Sample) {
				if s.Trial.Cell == 1 && s.Trial.Block > 2 {
					fail(s, bench.Failed)
				}
			})
		}, []string{analysis.CodeFailed, analysis.CodeFewSamples}, "failures", []int{1}},
		{"few pairs", 14, func(r *bench.Run) {
			every(r, func(_ int, s *bench.Sample) {
				if s.Trial.Cell == 1 && s.Trial.Block < 6 || s.Trial.Cell == 2 && s.Trial.Block > 4 {
					s.Values[0] = s.Values[0] / 0 // infinite: no pair, but a successful trial
				}
			})
		}, []string{analysis.CodeFewPairs, analysis.CodeZero}, "tare export", []int{1, 2}},
		{"few blocks", 6, func(r *bench.Run) {}, []string{analysis.CodeFewBlocks}, "--blocks 7", nil},
		{"imprecise, out of blocks", 40, func(r *bench.Run) { r.Header.Plan.Precision = 0.004 }, []string{analysis.CodeImprecise}, "--blocks ", nil},
		{"imprecise beyond help", 40, func(r *bench.Run) { r.Header.Plan.Precision = 0.001 }, []string{analysis.CodeImprecise}, "reduce the noise first", nil},
		{"imprecise, out of time", 40, func(r *bench.Run) {
			r.Header.Plan.Precision, r.End.Reason = 0.004, bench.StopBudget
		}, []string{analysis.CodeImprecise}, "--budget ", nil},
		{"precise enough", 40, func(r *bench.Run) { r.Header.Plan.Precision = 0.03 }, nil, "", nil},
		{"imprecise by a margin", 40, func(r *bench.Run) {
			r.Header.Plan.Precision = 0.03
			r.Header.Plan.Margins = []bench.Margin{{Metric: "first_instruction", Precision: 0.004}}
		}, []string{analysis.CodeImprecise}, "blocks are needed for ±0.4 %: --blocks ", nil},
		{"imprecise by one of two margins", 40, func(r *bench.Run) {
			r.Header.Metrics[1].Role = bench.Primary
			r.Header.Plan.Precision = 0.03
			r.Header.Plan.Margins = []bench.Margin{{Metric: "first_instruction", Precision: 0.004}}
		}, []string{analysis.CodeImprecise}, "blocks are needed for the precision asked for: --blocks ", nil},
		{"precise enough by a margin", 40, func(r *bench.Run) {
			r.Header.Plan.Precision = 0.004
			r.Header.Plan.Margins = []bench.Margin{{Metric: "first_instruction", Precision: 0.03}}
		}, nil, "", nil},
		{"zero", 40, func(r *bench.Run) { r.Samples[9].Values[0] = 0 }, []string{analysis.CodeZero}, "tare export", nil},
		{"steal", 40, set(1, 0.001, 1), []string{analysis.CodeSteal}, "", nil},
		{"steal that is little for many CPUs", 40, func(r *bench.Run) {
			set(1, 0.001, 1)(r)
			r.Header.Host.CPUs = 4096
		}, nil, "", nil},
		{"little steal", 40, set(1, 0.00001, 1), nil, "", nil},
		{"steal in the little time in which it was counted", 40, func(r *bench.Run) {
			r.Header.Host.CPUs = 1
			set(1, 0.0001, 1)(r) // 10 % of what was watched, 0.1 % of all
			every(r, func(_ int, s *bench.Sample) { s.Elapsed, s.Counted = 100*time.Millisecond, time.Millisecond })
		}, []string{analysis.CodeSteal}, "", nil},
		{"waiting for memory in the little time in which it was counted", 40, func(r *bench.Run) {
			set(2, 0.0005, 1)(r)
			every(r, func(_ int, s *bench.Sample) { s.Elapsed, s.Counted = 100*time.Millisecond, time.Millisecond })
		}, []string{analysis.CodePressure}, "", nil},
		{"no memory", 40, set(2, 0.001, 1), []string{analysis.CodePressure}, "memory", nil},
		{"busy", 40, set(3, 3, 5), []string{analysis.CodePressure}, "--washout", nil},
		{"hardly busy", 40, set(3, 3, 11), nil, "", nil},
		{"as many threads as CPUs", 40, set(3, 2, 1), nil, "", nil},
		{"waiting for disks", 40, set(4, 1, 5), []string{analysis.CodePressure}, "--washout", nil},
		{"throttled", 40, func(r *bench.Run) {
			every(r, func(_ int, s *bench.Sample) {
				if s.Trial.Cell == 2 {
					s.Values[5] = 0.001
				}
			})
		}, []string{analysis.CodeThrottled}, "quota", []int{2}},
		{"throttled as asked", 40, func(r *bench.Run) {
			r.Header.Plan.Cells[2].Spec.Limits.CPUs = 0.5
			every(r, func(_ int, s *bench.Sample) {
				if s.Trial.Cell == 2 {
					s.Values[5] = 0.001
				}
			})
		}, nil, "", nil},
		{"overhead", 40, func(r *bench.Run) { r.End.Overhead.CPU = r.End.Overhead.Wall / 25 }, []string{analysis.CodeOverhead}, "cpuset", nil},
		{"little overhead", 40, func(r *bench.Run) { r.End.Overhead.CPU = r.End.Overhead.Wall / 40 }, nil, "", nil},
		{"another clock", 40, func(r *bench.Run) {
			every(r, func(_ int, s *bench.Sample) {
				if s.Trial.Cell == 1 {
					s.Notes = []string{bench.NoteHostClock}
				}
			})
		}, []string{bench.NoteHostClock}, "the call to the engine", []int{1}},
		{"a note", 40, func(r *bench.Run) { r.Samples[0].Notes = []string{"odd"} }, []string{"odd"}, "", nil},
		{"a part that fails in other words each time", 40, func(r *bench.Run) {
			every(r, func(_ int, s *bench.Sample) {
				if s.Trial.Cell == 1 {
					s.Parts = []bench.PartOutcome{
						failed("few", "", fmt.Sprintf("port %d: refused", s.Trial.Block)),
						{Part: "pull", Outcome: bench.Unsupported, Reason: "no registry"},
					}
				}
			})
		}, []string{analysis.CodePartFailed, analysis.CodePartly}, "begin with the part's name", []int{1}},
		{
			"two parts that fail", 40, parts(failed("few", "http", "refused"), failed("many", "http", "refused")),
			[]string{analysis.CodePartFailed, analysis.CodePartFailed},
			"'tare run http' by itself",
			[]int{1},
		},
		{"parts of one cell that fail alike", 40, func(r *bench.Run) {
			every(r, func(_ int, s *bench.Sample) {
				if s.Trial.Cell == 1 {
					for _, part := range []string{"few", "many", "rate"} {
						s.Parts = append(s.Parts, failed(part, "http", fmt.Sprintf("server: port %d: refused", s.Trial.Seq)))
					}
				}
			})
		}, []string{analysis.CodePartFailed}, "'tare run http' by itself", []int{1}},
		{"parts in one container that fails", 40, func(r *bench.Run) {
			every(r, func(_ int, s *bench.Sample) {
				if s.Trial.Cell == 1 {
					for _, part := range []string{"cpu", "disk", "memory"} {
						s.Parts = append(s.Parts, failed(part, "", fmt.Sprintf("start: %012x: no space left", s.Trial.Seq)))
					}
				}
			})
		}, []string{analysis.CodePartFailed}, "'tare run cpu' by itself", []int{1}},
		{"parts that one container does not support", 40, func(r *bench.Run) {
			every(r, func(_ int, s *bench.Sample) {
				if s.Trial.Cell == 1 {
					for _, part := range []string{"cpu", "disk"} {
						s.Parts = append(s.Parts, bench.PartOutcome{Part: part, Outcome: bench.Unsupported, Reason: "no limits"})
					}
				}
			})
		}, []string{analysis.CodePartly}, "leave the parts out", []int{1}},
		{
			"parts in another container than usual", 40,
			parts(bench.PartOutcome{
				Part: "many", Outcome: bench.OK,
				Regrouped: &bench.Regrouping{With: []string{"many"}, Usual: []string{"few", "many"}},
			}),
			[]string{analysis.CodePartApart},
			"fix the failure",
			[]int{0},
		},
		{
			"one reason in two cells", 40,
			parts(failed("few", "", "12:20:32 [emerg] /tmp/x-17"), failed("few", "", "12:20:33 [emerg] /tmp/x-9")),
			[]string{analysis.CodePartFailed},
			"fix the cause",
			[]int{0, 1},
		},
		{"a note of the workload", 40, noted("", "slowed"), []string{"slowed"}, "wait for nothing", []int{1}},
		{"one way", 40, noted("by-road", "by-road"), []string{"by-road"}, "say road", nil},
		{"two ways", 40, noted("by-road", "by-air"), []string{"by-air", "by-road", "ways-differ"}, "choose one", []int{0, 1}},
		{"another runtime under way", 40, func(r *bench.Run) {
			every(r, func(_ int, s *bench.Sample) {
				if s.Trial.Cell == 2 && s.Trial.Block > 20 {
					a := *s.Applied
					a.Runtime = "crun"
					s.Applied = &a
				}
			})
		}, []string{analysis.CodeResidue}, "", []int{2}},
		{"another path under way", 40, func(r *bench.Run) {
			every(r, func(_ int, s *bench.Sample) {
				if s.Trial.Cell == 2 && s.Trial.Block > 20 {
					a := *s.Applied
					a.Path = []string{"veth"}
					s.Applied = &a
				}
			})
		}, []string{analysis.CodeResidue}, "", []int{2}},
		{"a path that is not known where a part failed", 40, func(r *bench.Run) {
			every(r, func(_ int, s *bench.Sample) {
				if s.Trial.Cell == 2 {
					s.Parts = []bench.PartOutcome{failed("few", "", "refused")}
				}
				if s.Trial.Cell == 2 && s.Trial.Block < 2 {
					a := *s.Applied
					a.Path = []string{"veth"}
					s.Applied = &a
				}
			})
		}, []string{analysis.CodePartFailed}, "", []int{2}},
		{"another runtime where a part failed", 40, func(r *bench.Run) {
			every(r, func(_ int, s *bench.Sample) {
				if s.Trial.Cell == 2 && s.Trial.Block > 20 {
					a := *s.Applied
					a.Runtime, a.Path = "crun", []string{"veth"}
					s.Applied, s.Parts = &a, []bench.PartOutcome{failed("few", "", "refused")}
				}
			})
		}, []string{analysis.CodeResidue, analysis.CodePartFailed}, "", []int{2}},
		{"another image in one cell", 40, func(r *bench.Run) {
			every(r, func(_ int, s *bench.Sample) {
				if s.Trial.Cell == 2 {
					a := *s.Applied
					a.Image = "sha256:2"
					s.Applied = &a
				}
			})
		}, []string{analysis.CodeResidue}, "digest", []int{0, 1, 2, 3}},
		{"another image as asked", 40, func(r *bench.Run) {
			r.Header.Plan.Cells[2].Spec.Image = "other"
			every(r, func(_ int, s *bench.Sample) {
				if s.Trial.Cell == 2 {
					a := *s.Applied
					a.Image = "sha256:2"
					s.Applied = &a
				}
			})
		}, nil, "", nil},
		{"resumed by another tare", 40, func(r *bench.Run) {
			r.Resumptions = []bench.Resumption{{Tool: "v9", Host: r.Header.Host, Seq: 20}}
		}, []string{analysis.CodeResidue}, "", nil},
		{"resumed", 40, func(r *bench.Run) {
			r.Resumptions = []bench.Resumption{{Tool: r.Header.Tool, Host: r.Header.Host, Seq: 20}}
		}, nil, "", nil},
		{"values drift", 60, func(r *bench.Run) {
			every(r, func(_ int, s *bench.Sample) { s.Values[0] *= 1 + float64(s.Trial.Block)/200 })
		}, []string{analysis.CodeDrift}, "--warmup", []int{0, 1, 2}},
		{"an effect drifts", 60, func(r *bench.Run) {
			every(r, func(_ int, s *bench.Sample) {
				if s.Trial.Cell == 1 {
					s.Values[0] *= 1 + float64(s.Trial.Block)/100
				}
			})
		}, []string{analysis.CodeDrift}, "--washout", []int{1}},
		{"waves", 80, func(r *bench.Run) {
			every(r, func(_ int, s *bench.Sample) {
				if s.Trial.Cell == 1 && s.Trial.Block/8%2 == 0 {
					s.Values[0] *= 1.1
				}
			})
		}, []string{analysis.CodeAlike}, "--washout", []int{1}},
		{"two groups", 60, func(r *bench.Run) {
			random := rand.New(rand.NewPCG(1, 1))
			every(r, func(_ int, s *bench.Sample) {
				if s.Trial.Cell == 1 && random.IntN(3) == 0 {
					s.Values[0] *= 3
				}
			})
		}, []string{analysis.CodeBimodal}, "tare export", []int{1}},
		{"a hiccup", 60, func(r *bench.Run) {
			every(r, func(_ int, s *bench.Sample) {
				if s.Trial.Cell == 1 && s.Trial.Block == 17 {
					s.Values[0] *= 30
				}
			})
		}, []string{analysis.CodeOutliers}, "tare doctor", []int{1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := clean(tt.blocks)
			tt.spoil(run)
			r := analyze(t, run)
			if got := codes(r); !slices.Equal(got, tt.want) {
				t.Fatalf("warnings %v, want %v: %+v", got, tt.want, r.Warnings)
			}
			if len(tt.want) == 0 {
				return
			}
			last := r.Warnings[len(r.Warnings)-1]
			if !strings.Contains(last.Hint, tt.hint) {
				t.Errorf("hint %q, want it to say %q", last.Hint, tt.hint)
			}
			if tt.cells != nil && !slices.Equal(last.Cells, tt.cells) {
				t.Errorf("cells %v, want %v", last.Cells, tt.cells)
			}
		})
	}
}

// A block that was only begun is none, and where a budget ends a run the limit of blocks
// says nothing.
func TestIncompleteBlocks(t *testing.T) {
	for _, tt := range []struct {
		lost   int // trials at the end
		budget time.Duration
		blocks int
		want   string
	}{
		{0, 0, 10, "it has 10 blocks of at most 10"},
		{1, 0, 9, "it has 9 blocks of at most 10"},
		{3, time.Minute, 9, "it has 9 blocks"},
		{39, time.Minute, 0, "it has 0 blocks"},
	} {
		run := clean(10)
		run.End, run.Header.Plan.Budget = nil, tt.budget
		run.Samples = run.Samples[:len(run.Samples)-tt.lost]
		r := analyze(t, run)
		if got := r.Warnings[0]; r.Blocks != tt.blocks || got.Code != analysis.CodeIncomplete ||
			got.Text != "the run was not finished: "+tt.want {
			t.Errorf("%d trials lost: %d blocks, want %d: %q", tt.lost, r.Blocks, tt.blocks, got.Text)
		}
		if want := len(run.Samples); r.Trials.OK != want || r.Metrics[0].Conditions[0].Cells == nil {
			t.Errorf("%d trials lost: %d count, want %d", tt.lost, r.Trials.OK, want)
		}
	}
}

// A control is not named beside its baseline: it is the same thing.
func TestControlIsNotNamed(t *testing.T) {
	for _, tt := range []struct {
		cells []int // 3 is the control of 0
		want  string
	}{{[]int{0, 1, 3}, "the client of a, b waited"}, {[]int{1, 3}, "the client of b, control waited"}} {
		run := clean(10)
		for i := range run.Samples {
			if s := &run.Samples[i]; slices.Contains(tt.cells, s.Trial.Cell) {
				s.Notes = []string{"slowed"}
			}
		}
		w := analyze(t, run).Warnings
		if len(w) != 1 || !strings.HasPrefix(w[0].Text, tt.want) || !slices.Equal(w[0].Cells, tt.cells) {
			t.Errorf("%v: %+v, want %q", tt.cells, w, tt.want)
		}
	}
}

// driftTexts spoils a clean run and returns what is said about drift.
func driftTexts(t *testing.T, spoil func(s *bench.Sample)) (texts []string) {
	t.Helper()
	run := clean(60)
	for i := range run.Samples {
		spoil(&run.Samples[i])
	}
	for _, w := range analyze(t, run).Warnings {
		if w.Code == analysis.CodeDrift {
			texts = append(texts, w.Text)
		}
	}
	return texts
}

// TestDriftAmount checks that a fall is told as a share of what it fell from.
func TestDriftAmount(t *testing.T) {
	slope := math.Log(2) / 40 // the medians of the first and the last third are 40 blocks apart
	for _, tt := range []struct {
		sign    float64
		how     string
		percent float64
	}{{1, " rose by ", 100}, {-1, " fell by ", 50}} {
		texts := driftTexts(t, func(s *bench.Sample) { s.Values[0] *= math.Exp(tt.sign * slope * float64(s.Trial.Block)) })
		if len(texts) != 1 {
			t.Fatalf("%q, want one", texts)
		}
		_, rest, _ := strings.Cut(texts[0], tt.how)
		amount, _, _ := strings.Cut(rest, " %")
		if v, err := strconv.ParseFloat(amount, 64); err != nil || math.Abs(v-tt.percent) > 4 {
			t.Errorf("%q, want%sabout %g %%", texts[0], tt.how, tt.percent)
		}
	}
}

// TestDriftDoesNotContradictItself checks that ratios are not said to be well
// where a ratio is said to drift.
func TestDriftDoesNotContradictItself(t *testing.T) {
	const claim = "ratios are barely affected"
	together := driftTexts(t, func(s *bench.Sample) { s.Values[0] *= 1 + float64(s.Trial.Block)/60 })
	if len(together) != 1 || !strings.Contains(together[0], claim) {
		t.Errorf("all cells together: %q, want one that says %q", together, claim)
	}
	apart := driftTexts(t, func(s *bench.Sample) {
		s.Values[0] *= 1 + float64(s.Trial.Block)/60
		if s.Trial.Cell == 1 {
			s.Values[0] /= 1 + float64(s.Trial.Block)/100
		}
	})
	if len(apart) != 2 || strings.Contains(strings.Join(apart, "\n"), claim) {
		t.Errorf("one cell otherwise: %q, want two that do not say %q", apart, claim)
	}
}

// TestHintsAreTrue follows the advice and checks that it helps.
func TestHintsAreTrue(t *testing.T) {
	run := clean(20)
	run.Header.Plan.Precision, run.End.Reason = 0.01, bench.StopBudget
	r := analyze(t, run)
	i := slices.IndexFunc(r.Warnings, func(w bench.Warning) bool { return w.Code == analysis.CodeImprecise })
	if i < 0 {
		t.Fatal("no warning")
	}
	_, text, _ := strings.Cut(r.Warnings[i].Hint, "--budget ")
	budget, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	blocks := int(float64(budget) / float64(r.Wall) * 20)
	again := clean(blocks)
	again.Header.Plan.Precision, again.End.Reason = 0.012, bench.StopBudget
	if got := codes(analyze(t, again)); slices.Contains(got, analysis.CodeImprecise) {
		t.Errorf("after %d blocks it is still imprecise", blocks)
	}
}

// TestFewPairs checks that metrics which lack pairs in the same cell are told at once,
// that more blocks are advised only where they may help, and that nothing is said of
// what no cell has a value of.
func TestFewPairs(t *testing.T) {
	shape := steadyRun(14)
	for _, name := range []string{"rate", "p99", "size", "zero", "absent"} {
		shape.Metrics = append(shape.Metrics,
			bench.Metric{Name: name, Title: "the " + name, Unit: "s", Role: bench.Primary, Scale: bench.Ratio})
	}
	run := analysistest.Run(shape)
	for i := range run.Samples {
		s := &run.Samples[i]
		s.Values[4] = math.NaN()
		switch {
		case s.Trial.Cell == 1:
			s.Values[3] = 0
		case s.Trial.Cell == 2:
			s.Values[0], s.Values[1] = math.NaN(), math.NaN()
		case s.Trial.Cell == 3 && s.Trial.Block > 4:
			s.Values[2] = math.NaN()
		}
	}
	var got []bench.Warning
	for _, w := range analyze(t, run).Warnings {
		if w.Code == analysis.CodeFewPairs {
			got = append(got, w)
		}
	}
	const why = "values are missing or have no ratio: see the other notes, and each trial with tare show " +
		"20260314-150926-2275 --trials"
	want := []bench.Warning{
		{Text: "the rate; the p99: crun can be compared with the baseline in no block", Hint: why, Cells: []int{2}, Metric: "rate", Also: []string{"p99"}},
		{
			Text: "the size: runc can be compared with the baseline in fewer than 6 blocks, so there is no 95 % interval",
			Hint: "more blocks may help: --blocks", Cells: []int{3}, Metric: "size",
		},
		{Text: "the zero: floor can be compared with the baseline in no block", Hint: why, Cells: []int{1}, Metric: "zero"},
	}
	for i := range want {
		want[i].Code = analysis.CodeFewPairs
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("few pairs (-want +got):\n%s", diff)
	}
}

// TestNoBaseline checks that a cell whose baseline always fails, or one that was never
// measured, is not called unclear, and that no time is advised which cannot help.
func TestNoBaseline(t *testing.T) {
	run := analysistest.Run(steadyRun(3))
	run.Header.Plan.Budget, run.End.Reason = 10*time.Second, bench.StopBudget
	for i := range run.Samples {
		switch s := &run.Samples[i]; s.Trial.Cell {
		case 0, 5: // the baseline, and its control
			s.Outcome, s.Values, s.Operation, s.Reason = bench.Failed, nil, "start", "no such device"
		case 1:
			s.Values[0] = math.NaN()
		}
	}
	r := analyze(t, run)
	for _, m := range r.Metrics {
		for _, c := range m.Conditions[0].Cells[1:] {
			if c.Comparison.Verdict != analysis.NotCompared || c.Comparison.Blocks != 0 {
				t.Errorf("%s of %s: %+v", m.Metric.Name, c.Name, c.Comparison)
			}
		}
		if n := m.Conditions[0].Noise; n != nil && n.Verdict != analysis.NotCompared {
			t.Errorf("the noise of %s: %+v", m.Metric.Name, n)
		}
	}
	if got := codes(r); !slices.Contains(got, analysis.CodeNoBaseline) {
		t.Errorf("warnings %v do not say why", got)
	}
	for _, w := range r.Warnings {
		if strings.Contains(w.Hint, "--budget") {
			t.Errorf("%s → %s: more time cannot help", w.Text, w.Hint)
		}
	}
}

// Where only a part of a run has too little, its trust says so, and is not as low as if all had.
func TestTrustOfAPart(t *testing.T) {
	for _, tt := range []struct {
		from int // trials of one cell fail from this block on
		all  bool
		want analysis.TrustLevel
		why  string
	}{
		{3, false, analysis.Medium, "27 trials of floor did not succeed"},
		{3, true, analysis.Low, "too few blocks for any interval"},
		{30, false, analysis.High, ""},
	} {
		run := analysistest.Run(steadyRun(30))
		for i := range run.Samples {
			if s := &run.Samples[i]; s.Trial.Block >= tt.from && (tt.all || s.Trial.Cell == 1) {
				s.Outcome, s.Values, s.Operation, s.Reason = bench.Failed, nil, "start", "no such device"
			}
		}
		if got := analyze(t, run).Trust; got.Level != tt.want || got.Why != tt.why {
			t.Errorf("failures from block %d, of all cells: %v: trust %s: %q, want %s: %q",
				tt.from, tt.all, got.Level, got.Why, tt.want, tt.why)
		}
	}
}

// Trust says in which rows verdicts are unreliable. It is low only if none stands.
func TestTrustOfAControl(t *testing.T) {
	conditions := []string{"clients=1", "clients=8"}
	for _, tt := range []struct {
		name       string
		conditions []string
		differs    func(metric int, condition string) bool // of two primary metrics, and four details
		want       analysis.TrustLevel
		why        string
	}{
		{
			"one of two", nil, func(m int, _ string) bool { return m == 0 },
			analysis.Medium, "native, measured twice, differs from itself in time to first instruction",
		},
		{
			"all, by little", nil, func(m int, _ string) bool { return m < 2 },
			analysis.Medium, "native, measured twice, differs from itself in time to first instruction and whole life",
		},
		{
			"all, by much", nil, func(m int, _ string) bool { return m < 2 },
			analysis.Low, "the same thing measured twice differs from itself in every row",
		},
		{
			"a detail", nil, func(m int, _ string) bool { return m == 2 },
			analysis.Medium, "the same thing measured twice differs from itself, but by too little to matter in any row",
		},
		{
			"one of two conditions", conditions, func(m int, c string) bool { return m < 2 && c == "clients=1" },
			analysis.Medium, "native (clients=1), measured twice, differs from itself in time to first instruction and whole life",
		},
		{
			"both conditions of one", conditions, func(m int, _ string) bool { return m == 0 },
			analysis.Medium, "the same thing measured twice differs in 3 of 6 rows",
		},
	} {
		shape := steadyRun(40)
		shape.Conditions = tt.conditions
		run, by := analysistest.Run(shape), 1.2
		if strings.HasSuffix(tt.name, "by much") {
			by = 3 // to the power of 12.7, it is more than anything differs by
		}
		for i := range run.Samples {
			s := &run.Samples[i]
			for m := range 6 {
				if c := &run.Header.Plan.Cells[s.Trial.Cell]; c.Control && tt.differs(m, c.Condition) {
					s.Values[m] *= by
				}
			}
		}
		if got := analyze(t, run).Trust; got.Level != tt.want || got.Why != tt.why {
			t.Errorf("%s: trust %s: %q, want %s: %q", tt.name, got.Level, got.Why, tt.want, tt.why)
		}
	}
}

// The reason that is told is one of those that make trust as low as it is.
func TestTrustTellsTheWorst(t *testing.T) {
	run := analysistest.Run(steadyRun(30))
	for i := range run.Samples {
		switch s := &run.Samples[i]; {
		case s.Trial.Cell == 1 && s.Trial.Block >= 3:
			s.Outcome, s.Values, s.Operation, s.Reason = bench.Failed, nil, "start", "no such device"
		case s.Trial.Cell == 2 && s.Trial.Block == 5:
			s.Outcome, s.Values, s.Reason, s.Notes = bench.Failed, nil, "damaged", []string{bench.NoteDamaged}
		}
	}
	got := analyze(t, run).Trust
	if got.Level != analysis.Low || got.Why != "stored trials are damaged" || got.Codes[0] != bench.NoteDamaged {
		t.Errorf("trust is %+v", got)
	}
}

// TestFewSamplesHint checks that as many blocks are advised as a difference takes, not
// as few as an interval does.
func TestFewSamplesHint(t *testing.T) {
	run := analysistest.Run(steadyRun(3))
	run.Header.Plan.MinBlocks = 1
	_, need, _ := analysis.Decisive(run.Header.Plan, run.Header.Metrics, 1)
	all := analyze(t, run).Warnings
	i := slices.IndexFunc(all, func(w bench.Warning) bool { return w.Code == analysis.CodeFewSamples })
	if i < 0 {
		t.Fatal("no warning")
	}
	if want := fmt.Sprintf("--blocks %d", need); !strings.HasSuffix(all[i].Hint, want) {
		t.Errorf("hint %q, want %s", all[i].Hint, want)
	}
}

// A note that doubts what is compared lowers trust, and another one does not.
func TestTrustOfANote(t *testing.T) {
	for note, want := range map[string]analysis.Trust{
		"slowed":  {Level: analysis.Medium, Why: "the client was too slow"},
		"by-road": {Level: analysis.High},
	} {
		run := analysistest.Run(steadyRun(40))
		run.Samples[20].Notes = []string{note}
		if got := analyze(t, run).Trust; got.Level != want.Level || got.Why != want.Why {
			t.Errorf("%s: %+v, want %+v", note, got, want)
		}
	}
}
