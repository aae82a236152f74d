package chrometrace_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/analysis/timeline"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report/chrometrace"
	"github.com/tare-bench/tare/internal/text/plain"
)

// A traceEvent is what a viewer reads.
type traceEvent struct {
	Phase string   `json:"ph"`
	PID   *int     `json:"pid"`
	TID   *int     `json:"tid"`
	Name  string   `json:"name"`
	Cat   string   `json:"cat"`
	TS    *float64 `json:"ts"`
	Dur   float64  `json:"dur"`
	ID    int      `json:"id"`
	BP    string   `json:"bp"`
	SF    any      `json:"sf"`
	Args  map[string]any
}

type trackID struct{ pid, tid int }

// validate reads a trace as Perfetto does, and says what is wrong with it.
func validate(text []byte) (events []traceEvent, problems []string) {
	var file struct {
		Unit   string       `json:"displayTimeUnit"`
		Events []traceEvent `json:"traceEvents"`
	}
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if err := json.Unmarshal(text, &file); err != nil {
		wrong("not JSON: %v", err)
		return nil, problems
	}
	if file.Unit != "ms" && file.Unit != "ns" {
		wrong("displayTimeUnit is %q", file.Unit)
	}
	named := map[trackID]bool{}
	slicesOf := map[trackID][]traceEvent{}
	begins, ends := map[int]traceEvent{}, map[int]traceEvent{}
	for i, e := range file.Events {
		if e.PID == nil || e.TID == nil || e.Name == "" {
			wrong("event %d has no process, no thread or no name: %+v", i, e)
			continue
		}
		if plain.Line(e.Name) != e.Name {
			wrong("event %d: a name with hidden characters: %q", i, e.Name)
		}
		at := trackID{*e.PID, *e.TID}
		switch {
		case e.Phase == "M":
			if e.Name == "thread_name" {
				named[at] = true
			}
			continue
		case e.TS == nil || *e.TS < 0 || e.Dur < 0:
			wrong("event %d has no time, or less than none: %+v", i, e)
			continue
		}
		into := map[string]map[int]traceEvent{"s": begins, "f": ends}[e.Phase]
		switch {
		case e.Phase == "X":
			slicesOf[at] = append(slicesOf[at], e)
		case into == nil:
			wrong("event %d has the phase %q", i, e.Phase)
		case e.Phase == "f" && e.BP != "e":
			wrong("arrow %d ends at the next slice, not at its own", e.ID)
			fallthrough
		default:
			if _, twice := into[e.ID]; twice || e.ID == 0 {
				wrong("two arrows are number %d, or it has no number", e.ID)
			}
			into[e.ID] = e
		}
	}
	for at, all := range slicesOf {
		if !named[at] {
			wrong("track %v has no name", at)
		}
		problems = append(problems, nested(at, all)...)
	}
	problems = append(problems, arrows(begins, ends, slicesOf)...)
	return file.Events, problems
}

// nested wants each slice inside of another as a whole, or apart from it.
func nested(at trackID, all []traceEvent) (problems []string) {
	if !slices.IsSortedFunc(all, func(a, b traceEvent) int { return cmp.Compare(*a.TS, *b.TS) }) {
		problems = append(problems, fmt.Sprintf("the slices of track %v are not in order of time", at))
	}
	const rounding = 1e-6 // µs
	var open []traceEvent
	for _, e := range all {
		for len(open) > 0 && *open[len(open)-1].TS+open[len(open)-1].Dur <= *e.TS+rounding {
			open = open[:len(open)-1]
		}
		if n := len(open); n > 0 && *e.TS+e.Dur > *open[n-1].TS+open[n-1].Dur+rounding {
			problems = append(problems, fmt.Sprintf("track %v: %q at %v for %v ends after %q, in which it begins",
				at, e.Name, *e.TS, e.Dur, open[n-1].Name))
		}
		open = append(open, e)
	}
	return problems
}

// arrows wants two ends for each, in order of time, each in a slice.
func arrows(begins, ends map[int]traceEvent, slicesOf map[trackID][]traceEvent) (problems []string) {
	inside := func(e traceEvent) bool {
		return slices.ContainsFunc(slicesOf[trackID{*e.PID, *e.TID}], func(s traceEvent) bool {
			return *s.TS <= *e.TS && *e.TS < *s.TS+s.Dur
		})
	}
	for id, b := range begins {
		e, ok := ends[id]
		switch {
		case !ok:
			problems = append(problems, fmt.Sprintf("arrow %d has no end", id))
		case *e.TS < *b.TS:
			problems = append(problems, fmt.Sprintf("arrow %d goes back in time", id))
		case !inside(b), !inside(e):
			problems = append(problems, fmt.Sprintf("arrow %d begins or ends where there is no slice: %v, %v", id, *b.TS, *e.TS))
		}
	}
	for id := range ends {
		if _, ok := begins[id]; !ok {
			problems = append(problems, fmt.Sprintf("arrow %d has no beginning", id))
		}
	}
	return problems
}

func plan() *bench.Plan {
	return &bench.Plan{Cells: []bench.Cell{{Name: "runc"}, {Name: "docker"}, {Name: "docker", Control: true}}}
}

func result(all ...timeline.Timeline) *timeline.Result {
	r := &timeline.Result{}
	for i := range all {
		r.Cells = append(r.Cells, analysistest.TracedCell(i, timeline.Cost{}, all[i]))
	}
	return r
}

func written(t *testing.T, r *timeline.Result) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := chrometrace.Write(&b, plan(), r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestTrace checks that what is written is what a viewer takes, and that it says what the timelines do.
func TestTrace(t *testing.T) {
	runc, docker := analysistest.Runc(bench.Trial{Seq: 3}), analysistest.Docker(bench.Trial{Seq: 4, Cell: 1})
	control := docker
	events, problems := validate(written(t, result(runc, docker, control)))
	for _, p := range problems {
		t.Error(p)
	}
	path := 0.0
	crossings, arrows := 0, 0
	tracks, names := map[int]float64{}, map[string]bool{}
	for _, e := range events {
		switch e.Phase {
		case "M":
			if e.Name == "process_name" {
				names[e.Args["name"].(string)] = true
				if strings.HasSuffix(e.Args["name"].(string), "critical path") {
					tracks[*e.PID] = 0
				}
			}
		case "s":
			arrows++
		}
	}
	for _, e := range events {
		if _, is := tracks[*e.PID]; is && e.Phase == "X" && (e.Name == "create" || e.Name == "start") {
			path += e.Dur
		}
	}
	for _, tl := range []timeline.Timeline{runc, docker} {
		for i := 1; i < len(tl.Tiles); i++ {
			if tl.Tiles[i].Lane != tl.Tiles[i-1].Lane {
				crossings++
			}
		}
	}
	if want := float64((runc.Value + docker.Value).Nanoseconds()) / 1e3; len(tracks) != 2 || math.Abs(path-want) > 0.01 {
		t.Errorf("%d critical paths take %.3f µs, want 2 that take %.3f", len(tracks), path, want)
	}
	if arrows != crossings {
		t.Errorf("%d arrows, want %d", arrows, crossings)
	}
	for _, want := range []string{
		"docker: critical path", "docker: dockerd 800", "docker: dockerd, again (dockerd) 2210", "runc: runc 2310",
	} {
		if !names[want] {
			t.Errorf("no process is called %q: %v", want, names)
		}
	}
}

// TestTraceOfAnything writes timelines that no analysis would make.
func TestTraceOfAnything(t *testing.T) {
	const attack = "</script>\x1b[2J\u202e\x00\xff\"\n"
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 9))
		tl := analysistest.Docker(bench.Trial{})
		for i := range tl.Lanes {
			tl.Lanes[i].Name, tl.Lanes[i].Role = attack, attack
			for range random.IntN(20) {
				tl.Lanes[i].Beside = append(tl.Lanes[i].Beside, timeline.Tile{
					At: time.Duration(random.IntN(200e6)), Duration: time.Duration(1 + random.IntN(30e6)), Lane: i,
					Thread: 2200 + 10*random.IntN(5), Kind: timeline.OnCPU, Class: attack,
				})
			}
			slices.SortFunc(tl.Lanes[i].Beside, func(a, b timeline.Tile) int { return int(a.At - b.At) })
		}
		for i := range tl.Tiles {
			tl.Tiles[i].Reason, tl.Tiles[i].Thread = attack, 2200+10*random.IntN(5)
		}
		tl.Spans[0].Duration, tl.Spans[0].Name = time.Duration(random.IntN(200e6)), attack
		tl.Spans[1].At = tl.Spans[0].Duration
		tl.Spans[1].Duration = tl.Value - tl.Spans[1].At
		r := result(tl)
		c := &r.Cells[0]
		c.Timelines[0].Tiles[1].Lane = -1
		_, problems := validate(written(t, r))
		for _, p := range problems {
			t.Errorf("seed %d: %s", seed, p)
		}
		if len(problems) > 0 {
			return
		}
	}
}

// TestNothingToWrite checks that a trace of nothing is an error.
func TestNothingToWrite(t *testing.T) {
	r := result(analysistest.Runc(bench.Trial{}))
	r.Cells[0].Typical = -1
	if err := chrometrace.Write(&bytes.Buffer{}, plan(), r); err == nil {
		t.Error("no error")
	}
}

// TestWriteError checks that a writer that fails is no success.
func TestWriteError(t *testing.T) {
	if err := chrometrace.Write(full{}, plan(), result(analysistest.Runc(bench.Trial{}))); err == nil {
		t.Error("no error")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, fmt.Errorf("the disk is full") }

// TestValidator checks that the validator finds what a viewer would not take.
func TestValidator(t *testing.T) {
	const (
		name  = `{"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"x"}}`
		whole = `,{"ph":"X","pid":1,"tid":2,"name":"a","ts":0,"dur":10}`
		begin = `,{"ph":"s","pid":1,"tid":2,"name":"a","ts":1,"id":1}`
	)
	for want, events := range map[string]string{
		"ends after":              name + whole + `,{"ph":"X","pid":1,"tid":2,"name":"b","ts":5,"dur":10}`,
		"no name":                 strings.TrimPrefix(whole, ","),
		"not in order":            name + `,{"ph":"X","pid":1,"tid":2,"name":"a","ts":12,"dur":1}` + whole,
		"no end":                  name + whole + begin,
		"no beginning":            name + whole + `,{"ph":"f","bp":"e","pid":1,"tid":2,"name":"a","ts":1,"id":1}`,
		"has no time":             name + `,{"ph":"X","pid":1,"tid":2,"name":"a","ts":-1,"dur":10}`,
		"hidden characters":       name + `,{"ph":"X","pid":1,"tid":2,"name":"a\u001b","ts":1,"dur":10}`,
		"where there is no slice": name + whole + begin + `,{"ph":"f","bp":"e","pid":1,"tid":2,"name":"a","ts":10,"id":1}`,
		"at the next slice":       name + whole + begin + `,{"ph":"f","pid":1,"tid":2,"name":"a","ts":9,"id":1}`,
		"has the phase":           name + `,{"ph":"B","pid":1,"tid":2,"name":"a","ts":1}`,
	} {
		_, problems := validate([]byte(`{"displayTimeUnit":"ms","traceEvents":[` + events + `]}`))
		if len(problems) != 1 || !strings.Contains(problems[0], want) {
			t.Errorf("want only %q, got %q", want, problems)
		}
	}
}
