package survey_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/workload/survey"
)

// A part is a workload that tells what happens to it.
type part struct {
	name           string
	log            *[]string
	check, reset   error
	setup, run     error
	remove         error
	counted        float64
	applied        bench.Applied
	asked          bench.Spec
	withoutFixture bool
}

func (p part) Name() string { return p.name }
func (p part) Doc() string  { return p.name }

func (p part) Metrics() []bench.Metric {
	return []bench.Metric{
		{Name: p.name + ".detail", Role: bench.Detail},
		{Name: p.name, Role: bench.Primary},
		{Name: "faults", Role: bench.Counter},
		{Name: "inside.faults", Role: bench.Counter},
	}
}

func (p part) Params() []bench.Param {
	return []bench.Param{{Name: "time", Default: "1s"}, {Name: "size", Default: "1"}}
}

func (p part) Check(context.Context, bench.Task) error { return p.check }

func (p part) Setup(_ context.Context, t bench.Task) (bench.Fixture, error) {
	p.say("setup time=" + t.Params["time"])
	if p.withoutFixture {
		return nil, p.setup
	}
	return fixture{p}, p.setup // which nobody may use if there is an error
}

func (p part) Run(_ context.Context, t bench.Task, m bench.Meter) error {
	p.say(fmt.Sprintf("run fixture=%v", t.Fixture != nil))
	if p.run != nil {
		return p.run
	}
	m.Record(p.name, 1)
	m.Record("faults", p.counted)
	m.Record("inside.faults", p.counted)
	return m.Applied(p.asked, p.applied)
}

func (p part) say(what string) { *p.log = append(*p.log, p.name+" "+what) }

type fixture struct{ part }

func (f fixture) Reset(context.Context) error   { f.say("reset"); return f.reset }
func (f fixture) Suspend(context.Context) error { f.say("rest"); return nil }
func (f fixture) Remove(context.Context) error  { f.say("remove"); return f.remove }

// meter keeps what it is told. It has no clock.
type meter struct {
	bench.Clock
	bench.Discard
	values  map[string]float64
	notes   []string
	parts   []bench.PartOutcome
	applied bench.Applied
	want    bench.Spec
}

func (m *meter) Note(code string)                { m.notes = append(m.notes, code) }
func (m *meter) Part(p bench.PartOutcome)        { m.parts = append(m.parts, p) }
func (m *meter) Record(metric string, v float64) { m.values[metric] += v; m.values["of "+metric]++ }

func (m *meter) Applied(want bench.Spec, got bench.Applied) error {
	m.want, m.applied = want, got
	return bench.Attest(want, got)
}

// trial takes one cell through set-up, one trial and the end.
func trial(t *testing.T, parts ...part) (log []string, m *meter, err error) {
	t.Helper()
	var all []survey.Part
	for _, p := range parts {
		p.log = &log
		all = append(all, survey.Part{Name: p.name, Workload: p})
	}
	w := survey.New(all...)
	task := bench.Task{Common: new(bench.Common), Params: map[string]string{}}
	for _, p := range w.Params() {
		task.Params[p.Name] = p.Default
	}
	m = &meter{values: map[string]float64{}}
	if err := w.Check(t.Context(), task); err != nil {
		return log, m, err
	}
	f, err := w.(bench.Fixturer).Setup(t.Context(), task)
	if err != nil {
		return log, m, err
	}
	task.Fixture = f
	if err = f.Reset(t.Context()); err == nil {
		err = w.Run(t.Context(), task, m)
	}
	return log, m, errors.Join(err, f.(bench.FixtureSuspender).Suspend(t.Context()), f.Remove(t.Context()))
}

// Every part is set up, run and removed, in order, with its own options; what
// the kernel counted is added up, but for what it counted inside, and what was
// applied is joined.
func TestPartsAreOneTrial(t *testing.T) {
	log, m, err := trial(t,
		part{name: "a", counted: 2, applied: bench.Applied{Network: "none", Storage: "overlay"}},
		part{
			name: "b", counted: 3, asked: bench.Spec{Storage: "bind"},
			applied: bench.Applied{Network: "none", Data: "bind ext4"}, withoutFixture: true,
		},
		part{
			name: "c", asked: bench.Spec{Network: "bridge"}, applied: bench.Applied{Network: "bridge", Path: []string{"veth"}},
		},
		part{name: "d", applied: bench.Applied{Builder: "buildx 0.12"}},
		part{name: "e", applied: bench.Applied{Network: "none", Maker: "docker-compose 1.29.2"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"a setup time=1s", "b setup time=1s", "c setup time=1s", "d setup time=1s", "e setup time=1s",
		"a reset", "c reset", "d reset", "e reset",
		"a run fixture=true", "b run fixture=false", "c run fixture=true", "d run fixture=true", "e run fixture=true",
		"a rest", "c rest", "d rest", "e rest", "a remove", "c remove", "d remove", "e remove",
	}
	if diff := cmp.Diff(want, log); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if m.values["faults"] != 5 || m.values["of faults"] != 1 {
		t.Errorf("faults: %v in %v reports, want 5 in one", m.values["faults"], m.values["of faults"])
	}
	if a, b := m.values["a.inside.faults"], m.values["b.inside.faults"]; a != 2 || b != 3 {
		t.Errorf("faults inside: %v and %v, want 2 and 3", a, b)
	}
	applied := bench.Applied{
		Network: "none", Storage: "overlay", Data: "bind ext4", Path: []string{"veth"}, Builder: "buildx 0.12",
		Maker: "docker-compose 1.29.2",
	}
	if diff := cmp.Diff(applied, m.applied); diff != "" || m.notes != nil {
		t.Errorf("notes %v; applied (-want +got):\n%s", m.notes, diff)
	}
}

// A part that an engine cannot do leaves the others as they are, whenever it says so.
func TestPartThatIsNotSupported(t *testing.T) {
	no := fmt.Errorf("%w: no disk", bench.ErrUnsupported)
	for name, p := range map[string]part{
		"check": {name: "b", check: no}, "setup": {name: "b", setup: no}, "reset": {name: "b", reset: no}, "run": {name: "b", run: no},
	} {
		_, m, err := trial(t, part{name: "a"}, p, part{name: "c"})
		_, has := m.values["b"]
		want := []bench.PartOutcome{{Part: "b", Outcome: bench.Unsupported, Reason: no.Error()}}
		if err != nil || has || m.values["a"]+m.values["c"] != 2 || !cmp.Equal(m.parts, want) {
			t.Errorf("%s: values %v, parts %+v, error %v", name, m.values, m.parts, err)
		}
	}
	if _, _, err := trial(t, part{name: "a", check: no},
		part{name: "b", check: no}); !errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("nothing can be done: %v", err)
	}
}

// What goes wrong in a part leaves the others as they are, and is told in a line of bounded
// length, with the cause at its end.
func TestPartThatFails(t *testing.T) {
	broken := errors.New("broken\n by two lines " + strings.Repeat("of many ", 100) + "words: no space left")
	for name, p := range map[string]part{
		"setup": {name: "b", setup: broken}, "reset": {name: "b", reset: broken}, "run": {name: "b", run: broken},
	} {
		log, m, err := trial(t, part{name: "a"}, p, part{name: "c"})
		_, has := m.values["b"]
		if err != nil || has || m.values["a"]+m.values["c"] != 2 || len(m.parts) != 1 {
			t.Fatalf("%s: values %v, parts %+v, error %v", name, m.values, m.parts, err)
		}
		got := m.parts[0]
		said := strings.HasPrefix(got.Reason, "broken by two lines of") &&
			strings.HasSuffix(got.Reason, "words: no space left")
		if got.Part != "b" || got.Outcome != bench.Failed || !said || len(got.Reason) > 600 {
			t.Errorf("%s: %+v", name, got)
		}
		if removed := slices.Contains(log, "b remove"); removed != (p.setup == nil) {
			t.Errorf("%s: what was set up is removed: %v", name, removed)
		}
	}
}

// A part that is not called as its workload is told with the name of that, by which it
// can be run alone.
func TestWorkloadOfPartThatFails(t *testing.T) {
	var log []string
	w := survey.New(
		survey.Part{Name: "few", Workload: part{name: "http", log: &log, run: errors.New("broken")}, As: "few"},
		survey.Part{Name: "a", Workload: part{name: "a", log: &log}},
	)
	f, err := w.(bench.Fixturer).Setup(t.Context(), bench.Task{Common: new(bench.Common)})
	if err != nil {
		t.Fatal(err)
	}
	m := &meter{values: map[string]float64{}}
	if err := errors.Join(f.Reset(t.Context()), w.Run(t.Context(), bench.Task{Fixture: f}, m)); err != nil {
		t.Fatal(err)
	}
	want := []bench.PartOutcome{{Part: "few", Workload: "http", Outcome: bench.Failed, Reason: "broken"}}
	if diff := cmp.Diff(want, m.parts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is wrong with the whole trial ends it, named; what was set up is removed.
func TestTrialThatFails(t *testing.T) {
	broken := errors.New("broken")
	for name, parts := range map[string][]part{
		"check":   {{name: "a"}, {name: "b", check: broken}},
		"remove":  {{name: "a"}, {name: "b", remove: broken}},
		"applied": {{name: "a"}, {name: "b", asked: bench.Spec{Network: "host"}, applied: bench.Applied{Network: "none"}}},
		"all":     {{name: "a", run: broken}, {name: "b", setup: broken}},
		"one":     {{name: "a", check: fmt.Errorf("%w: no disk", bench.ErrUnsupported)}, {name: "b", run: broken}},
	} {
		log, _, err := trial(t, parts...)
		if err == nil || !strings.Contains(err.Error(), "b: ") || errors.Is(err, bench.ErrUnsupported) {
			t.Errorf("%s: %v does not name the part", name, err)
		}
		for _, p := range parts {
			made := slices.Contains(log, p.name+" setup time=1s") && p.setup == nil
			if removed := slices.Contains(log, p.name+" remove"); removed != made {
				t.Errorf("%s: %s was set up: %v, and removed: %v", name, p.name, made, removed)
			}
		}
	}
}

// What all parts of a container have failed by is told once.
func TestOneReasonOfAllParts(t *testing.T) {
	_, _, err := trial(t, part{name: "a", run: errors.New("start: 0123456789ab: no space left")},
		part{name: "b", run: errors.New("closed")}, part{name: "c", run: errors.New("start: ba9876543210: no space left")})
	if want := "a, c: start: 0123456789ab: no space left; b: closed"; err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

// Once the time of a trial is up, no other part is tried.
func TestTimeIsUp(t *testing.T) {
	var log []string
	ctx, cancel := context.WithCancel(t.Context())
	a := part{name: "a", log: &log, run: context.Canceled}
	b := part{name: "b", log: &log}
	w := survey.New(survey.Part{Name: "a", Workload: a}, survey.Part{Name: "b", Workload: b})
	f, err := w.(bench.Fixturer).Setup(ctx, bench.Task{Common: new(bench.Common)})
	if err == nil {
		err = f.Reset(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	err = w.Run(ctx, bench.Task{Fixture: f}, &meter{values: map[string]float64{}})
	if !errors.Is(err, context.Canceled) || slices.Contains(log, "b run fixture=true") {
		t.Errorf("%v after %v", err, log)
	}
	if _, err := w.(bench.Fixturer).Setup(ctx, bench.Task{Common: new(bench.Common)}); !errors.Is(err, context.Canceled) {
		t.Errorf("set up although the time is up: %v", err)
	}
}

// A batchWorkload is a part that may be done together with others, and fails at will.
type batchWorkload struct {
	part
	fails *error
}

func (k batchWorkload) Setup(context.Context, bench.Task) (bench.Fixture, error) {
	return batchPart{fixture{k.part}, k.fails}, nil
}

func (k batchWorkload) Run(_ context.Context, _ bench.Task, m bench.Meter) error {
	return batchPart{fixture{k.part}, k.fails}.serve(m, "alone")
}

type batchPart struct {
	fixture
	fails *error
}

var errPartFailed = errors.New("burnt")

func (d batchPart) serve(to bench.Recorder, how string) error {
	d.say(how)
	if *d.fails != nil {
		return *d.fails
	}
	to.Record(d.name, 1)
	return nil
}

func (d batchPart) Batch(others ...bench.Fixture) (supervise.Batched, bool) {
	fakeBatch := fakeBatch{d}
	for _, o := range others {
		next, ok := o.(batchPart)
		if !ok {
			return nil, false
		}
		fakeBatch = append(fakeBatch, next)
	}
	return fakeBatch, true
}

// A fakeBatch is dishes in one container: one that fails takes those after it along.
type fakeBatch []batchPart

func (fakeBatch) Reset(context.Context) error { return nil }

func (all fakeBatch) Work(_ context.Context, m bench.Meter, sinks []supervise.PartSink) error {
	var lost error
	for i, l := range sinks {
		err := lost
		if err == nil {
			err = all[i].serve(l.Recorder, "together")
		}
		lost = err
		if err := l.Err(err); err != nil {
			return err
		}
	}
	return m.Applied(bench.Spec{}, bench.Applied{})
}

// Parts that share a container share it until one fails. The next time those that came
// to nothing are tried alone, and what fails again while others do not is not tried any
// more. What they measure in another container than usual has no value, nor has what
// comes after a part that had worked and is missing.
func TestPartIsGivenUp(t *testing.T) {
	trialCases(t,
		trialCase{"", "a together b together c together", "", ""},
		trialCase{"b", "a together b together", "bc", ""},
		trialCase{"", "a alone b alone c alone", "", "abc"},
		trialCase{"b", "a together b together", "bc", ""},
		trialCase{"b", "a alone b alone c alone", "b", "ac"},
		trialCase{"", "a together c together", "b", "c"},
		trialCase{"", "a together c together", "b", "c"},
	)
}

// Without a part that has never worked the others are by themselves as usual.
func TestPartThatNeverWorked(t *testing.T) {
	trialCases(t,
		trialCase{"b", "a together b together", "bc", ""},
		trialCase{"b", "a alone b alone c alone", "b", "ac"},
		trialCase{"", "a together c together", "b", ""},
		trialCase{"", "a together c together", "b", ""},
	)
}

// A trial in which everything fails is held against no part, and those are told apart
// that have failed with another.
func TestTrialInWhichAllFails(t *testing.T) {
	trialCases(t,
		trialCase{"b", "a together b together", "bc", ""},
		trialCase{"abc", "a alone b alone c alone", "abc", ""},
		trialCase{"abc", "a alone b alone c alone", "abc", ""},
		trialCase{"", "a alone b alone c alone", "", "abc"},
		trialCase{"a", "a together", "abc", ""},
		trialCase{"a", "a alone b alone c alone", "a", "bc"},
		trialCase{"a", "a alone b together c together", "a", "bc"},
		trialCase{"", "b together c together", "a", "bc"},
	)
}

// A service that was not ready in all its time is waited for again only if it has ever
// been; those that share it with others are given up with them.
func TestServiceThatIsNeverReady(t *testing.T) {
	trialCases(t,
		trialCase{"C", "a together b together c together", "c", ""},
		trialCase{"B", "a together b together", "bc", ""},
		trialCase{"", "a alone b alone", "c", "ab"},
		trialCase{"B", "a together b together", "bc", ""},
		trialCase{"B", "a alone b alone", "bc", "a"},
		trialCase{"", "a alone", "bc", ""},
	)
	trialCases(t,
		trialCase{"A", "a together", "abc", ""},
		trialCase{"", "", "abc", ""},
	)
}

// A trialCase is a trial of parts that may be done together. Those that fail since they
// are not ready are in capital letters. Lacks are those without a value because they have
// failed, apart those that had another container than usual.
type trialCase struct{ fails, did, lacks, apart string }

// trialCases takes parts a, b and c through trials.
func trialCases(t *testing.T, all ...trialCase) {
	t.Helper()
	var log []string
	fails := map[string]*error{"a": new(error), "b": new(error), "c": new(error)}
	var parts []survey.Part
	for _, name := range []string{"a", "b", "c"} {
		parts = append(parts, survey.Part{Name: name, Workload: batchWorkload{part{name: name, log: &log}, fails[name]}})
	}
	w := survey.New(parts...)
	f, err := w.(bench.Fixturer).Setup(t.Context(), bench.Task{Common: new(bench.Common)})
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range all {
		log = nil
		for name, why := range fails {
			switch *why = nil; {
			case strings.Contains(step.fails, name):
				*why = errPartFailed
			case strings.Contains(step.fails, strings.ToUpper(name)):
				*why = fmt.Errorf("%w: %w", errPartFailed, supervise.ErrNotReady)
			}
		}
		m := &meter{values: map[string]float64{}}
		if err := f.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := w.Run(t.Context(), bench.Task{Fixture: f}, m)
		var lacks, apart, valued []string
		for _, name := range []string{"a", "b", "c"} {
			failed := slices.ContainsFunc(m.parts, func(p bench.PartOutcome) bool {
				return p.Part == name && p.Outcome == bench.Failed
			})
			switch {
			case m.values[name] != 0:
				valued = append(valued, name)
			case failed || errors.Is(err, errPartFailed):
				lacks = append(lacks, name)
			default:
				apart = append(apart, name)
			}
		}
		did := strings.Join(slices.DeleteFunc(log, func(s string) bool { return strings.HasSuffix(s, " reset") }), " ")
		if did != step.did || strings.Join(lacks, "") != step.lacks || strings.Join(apart, "") != step.apart {
			t.Errorf("trial %d: %q, without %q, apart %q, want %q, %q, %q",
				i, did, lacks, apart, step.did, step.lacks, step.apart)
		}
		sample := bench.Sample{Parts: m.parts}
		nothing := len(lacks) == len(parts)
		if errors.Is(err, errPartFailed) != nothing || !nothing && err != nil ||
			len(valued)+len(lacks)+len(apart) != len(parts) ||
			sample.PartRegrouped() != (len(apart) > 0) || sample.PartFailed() != (len(lacks) > 0 && !nothing) {
			t.Errorf("trial %d, without %q: %v; parts %+v", i, lacks, err, m.parts)
		}
	}
}

func TestMetricsAndParams(t *testing.T) {
	a, b := part{name: "a"}, part{name: "b"}
	w := survey.New(survey.Part{Name: "a", Workload: a}, survey.Part{Name: "b", Workload: b})
	var got []string
	for _, m := range w.Metrics() {
		got = append(got, m.Name)
	}
	for _, p := range w.Params() {
		got = append(got, p.Name+"="+p.Default)
	}
	want := []string{
		"a", "b", "a.detail", "faults", "a.inside.faults", "b.detail", "b.inside.faults", "a.time=1s",
		"a.size=1", "b.time=1s", "b.size=1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What a part advises when it fails names options as the survey calls them. What it quotes stays as it is.
func TestAdviceNamesOptions(t *testing.T) {
	why := errors.New(`it says "no option time": set option time, or --param size=2, or see option other`)
	_, m, err := trial(t, part{name: "a", run: why}, part{name: "b"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `it says "no option time": set option a.time, or --param a.size=2, or see option other`
	if got := m.parts[0].Reason; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_, _, err = trial(t, part{name: "a", run: why})
	if err == nil || err.Error() != "a: "+want || !errors.Is(err, why) {
		t.Errorf("alone: %v", err)
	}
	_, _, err = trial(t, part{name: "a", check: fmt.Errorf("%w: leave option size out", bench.ErrUnsupported)})
	if err == nil || !strings.HasSuffix(err.Error(), "leave option a.size out") || !errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("not supported: %v", err)
	}
}
