package timeline

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/recording"
)

// leastBeside is the shortest work beside the path that a lane shows.
const leastBeside = 50 * time.Microsecond

// A stage is a Span as the trial reported it.
type stage struct {
	Span
	inside bool // it ended in the container
	polled bool // tare looked whether it had ended
	thread int  // of tare, in which it ended otherwise; 0 = unknown
}

// end is when the stage ended, since the sample began.
func (s *stage) end() time.Duration { return s.Began + s.Duration }

// newTimeline makes the timeline of a traced trial that succeeded, of a metric or, if that is empty, of the first that
// has stages. It returns the metric that it is of.
func newTimeline(s *bench.Sample, of string) (t Timeline, metric string) {
	t = Timeline{Trial: s.Trial}
	stages, metric, err := stagesOf(s.Trace, of)
	if err != nil {
		t.Incomplete = err.Error()
		return t, metric
	}
	for i := range stages {
		stages[i].At = t.Value
		t.Value += stages[i].Duration
		t.Spans = append(t.Spans, stages[i].Span)
	}
	r, err := recording.Decode(s.Trace)
	switch {
	case err != nil:
		t.Incomplete = err.Error()
		return t, metric
	case r.Failed != "":
		t.Incomplete = r.Failed
		return t, metric
	case r.Lost > 0:
		t.Lost, t.Incomplete = r.Lost, fmt.Sprintf("%d events were lost", r.Lost)
		return t, metric
	}
	t.NoStack = r.NoStack
	h := newHistory(r)
	if why := t.follow(h, stages); why != "" {
		t.Incomplete, t.Tiles = why, nil
		return t, metric
	}
	t.keepLanes(h, stages)
	return t, metric
}

// stagesOf reads the stages of which a metric is made, or the first metric of the trace if the name is empty.
func stagesOf(t *bench.Trace, of string) (all []stage, metric string, err error) {
	metric = of
	if t == nil {
		return nil, "", recording.ErrNone
	}
	for _, e := range t.Events {
		if e.Name != bench.StageEvent || metric != "" && e.Source != metric {
			continue
		}
		one := stage{Span: Span{Began: e.At}}
		metric = e.Source
		for _, a := range e.Attributes {
			n, _ := strconv.ParseInt(a.Value, 10, 64) // 0 is refused, or unknown
			switch a.Key {
			case bench.StageName:
				one.Name = a.Value
			case bench.StageLength:
				one.Duration = time.Duration(n)
			case bench.StageThread:
				one.thread = int(n)
			case bench.StageInside:
				one.inside = a.Value == "true"
			case bench.StagePolled:
				one.polled = a.Value == "true"
			}
		}
		const longest = 24 * time.Hour
		if n := len(all); one.Duration <= 0 || max(one.Duration, one.Began) > longest || n > 0 && one.Began < all[n-1].end() {
			return nil, metric, fmt.Errorf("its stage %.40q is not after those before it", one.Name)
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, metric, errors.New("it reports no stages")
	}
	return all, metric, nil
}

// follow fills in the path, or says why it cannot. Tiles then have the lanes of the history.
func (t *Timeline) follow(h *history, stages []stage) (why string) {
	for i := range stages {
		s := &stages[i]
		var end *thread
		switch {
		case s.inside:
			end = h.programAt(s.end())
		case s.thread != 0:
			end = h.threads[s.thread]
		default:
			end = h.tareAt(s.end())
		}
		if end == nil || !end.isOn(s.end()) {
			return s.unexplained()
		}
		for _, tile := range h.path(end, s.Began, s.end(), s.polled) {
			tile.At += s.At - s.Began
			t.Tiles = append(t.Tiles, tile)
		}
	}
	return ""
}

// unexplained says that nobody is known who ended the stage, and the usual cause.
func (s *stage) unexplained() string {
	why := fmt.Sprintf("no recorded thread ran when %s ended", s.Name)
	if s.inside {
		why += ": what made the container was not seen, such as an engine on another machine, or one that is started on " +
			"demand; have it run here before"
	}
	return why
}

// programAt finds the thread that executed a program last, of those that ran at a time, and calls its lane the
// program. It is nil if there is none.
func (h *history) programAt(at time.Duration) *thread {
	var found *thread
	lane, latest := -1, h.start
	for _, t := range h.order {
		since, l := h.laneBefore(t.process, at)
		if t.isOn(at) && since > latest && h.lanes[l].Process == t.process {
			found, lane, latest = t, l, since
		}
	}
	if found != nil {
		h.lanes[lane].Role = roleProgram
	}
	return found
}

// tareAt finds the thread of tare that came onto a CPU last, of those that ran at a time; nil if there is none.
func (h *history) tareAt(at time.Duration) *thread {
	var found *thread
	latest := h.start - 1
	for _, t := range h.order {
		_, l := h.laneBefore(t.process, at)
		ours := h.lanes[l].tare && h.lanes[l].Process == t.process
		if r, ok := t.runBefore(at); ok && at <= r.to && ours && r.from > latest {
			found, latest = t, r.from
		}
	}
	return found
}

// inOrder returns the threads by ID, each once.
func (h *history) inOrder() []*thread {
	var all []*thread
	for id, t := range h.threads {
		if id == t.id { // else it has become its process's first thread
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *thread) int { return cmp.Compare(a.id, b.id) })
	return all
}

// keepLanes adds the lanes that took part, and has the tiles refer to them.
func (t *Timeline) keepLanes(h *history, stages []stage) {
	beside, onCPU := h.work(t.Tiles, stages)
	onPath := make([]time.Duration, len(h.lanes))
	for i := range t.Tiles {
		onPath[t.Tiles[i].Lane] += t.Tiles[i].Duration
	}
	var order []int
	for i := range h.lanes {
		if onPath[i] > 0 || len(beside[i]) > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(h.lanes[a].began, h.lanes[b].began) })
	to := map[int]int{}
	for n, i := range order {
		to[i] = n
	}
	for _, i := range order {
		l := h.lanes[i].Lane
		l.Began, l.Ended = axis(stages, h.lanes[i].began), axis(stages, h.lanes[i].ended)
		l.OnPath, l.OnCPU, l.Beside = onPath[i], onCPU[i], beside[i]
		l.Parent = h.ancestor(i, to)
		for j := range l.Beside {
			l.Beside[j].Lane = to[i]
		}
		t.Lanes = append(t.Lanes, l)
	}
	for i := range t.Tiles {
		t.Tiles[i].Lane = to[t.Tiles[i].Lane]
	}
}

// ancestor is the new index of the nearest ancestor of a lane that has one; -1 if none has.
func (h *history) ancestor(lane int, to map[int]int) int {
	for range h.lanes { // a file can hold processes that are each other's parents
		if lane = h.lanes[lane].Parent; lane < 0 {
			break
		}
		if n, ok := to[lane]; ok {
			return n
		}
	}
	return -1
}

// work is, by lane, what threads did on a CPU that is not on the path, and how long they were on one in all.
func (h *history) work(path []Tile, stages []stage) (beside [][]Tile, onCPU []time.Duration) {
	beside, onCPU = make([][]Tile, len(h.lanes)), make([]time.Duration, len(h.lanes))
	taken := map[int][]Tile{} // by thread, in order of time
	for _, t := range path {
		if t.Kind == OnCPU || t.Kind == InCall {
			taken[t.Thread] = append(taken[t.Thread], t)
		}
	}
	for _, t := range h.order {
		for _, r := range t.runs {
			for i := range stages {
				from, to, shift := max(r.from, stages[i].Began), min(r.to, stages[i].end()), stages[i].At-stages[i].Began
				for to > from { // once for each program that it executed
					since, lane := h.laneBefore(t.process, to)
					since = max(since, from)
					beside[lane] = appendBeside(beside[lane], t.id, since+shift, to+shift, taken[t.id])
					onCPU[lane] += to - since
					to = since
				}
			}
		}
	}
	for i := range beside {
		slices.SortStableFunc(beside[i], func(a, b Tile) int { return cmp.Compare(a.At, b.At) })
	}
	return beside, onCPU
}

// appendBeside adds what lies between two times and is not taken.
func appendBeside(all []Tile, thread int, from, to time.Duration, taken []Tile) []Tile {
	add := func(from, to time.Duration) {
		if to-from >= leastBeside {
			all = append(all, Tile{At: from, Duration: to - from, Thread: thread, Kind: OnCPU, Class: Code})
		}
	}
	i, _ := slices.BinarySearchFunc(taken, from, func(t Tile, at time.Duration) int { return cmp.Compare(t.End(), at) })
	for ; i < len(taken) && taken[i].At < to; i++ {
		add(from, taken[i].At)
		from = max(from, taken[i].End())
	}
	add(from, to)
	return all
}

// axis is a time since the sample began on the axis of a timeline. A time outside of all stages is where the
// stage before it ends.
func axis(stages []stage, at time.Duration) time.Duration {
	on := time.Duration(0)
	for i := range stages {
		if at < stages[i].Began {
			break
		}
		on = stages[i].At + min(at-stages[i].Began, stages[i].Duration)
	}
	return on
}
