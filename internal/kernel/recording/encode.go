package recording

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// The names in the event of a bench.Trace that holds a recording.
const (
	eventName = "recording"
	keyFormat = "format" // of the events
	keyEvents = "events" // gzip of JSON, in base64
	keyFailed = "failed" // why nothing was recorded
	format    = "1"
)

// Limits on a recording that is read. They prevent a small hostile file from causing a large allocation.
const (
	maxEvents    = 1 << 19 // and stacks
	maxProcesses = 1 << 16 // those that are followed are a quarter of that
	maxTexts     = 1 << 16
	maxLength    = 4096                         // of a text, in bytes: of a kernel's function it is at most 512
	maxDepth     = 64                           // of a stack, twice what is recorded
	maxText      = 16 << 20                     // bytes of its JSON: of what fits into maxSize, it is some 3 MiB
	maxNumber    = 1 << 30                      // of a process
	maxTime      = 24 * time.Hour               // between two events
	maxSize      = bench.MaxTraceBytes - 16<<10 // of the encoded events
)

// columns is a Recording as JSON: for each field of its events a list, which compresses well.
type columns struct {
	Processes []Process `json:"processes"`
	Texts     []string  `json:"texts"`  // to which Text and Stacks refer by index
	Stacks    [][]int   `json:"stacks"` // functions, the innermost first
	Lost      int       `json:"lost,omitempty"`
	NoStack   int       `json:"no_stack,omitempty"`

	First        int64   `json:"first_ns"` // when the first event was
	After        []int64 `json:"after_ns"` // since the event before it; 0 for the first
	Kind         []Kind  `json:"kind"`
	Thread       []int   `json:"thread"`
	Process      []int   `json:"process"`
	Other        []int   `json:"other"`
	OtherProcess []int   `json:"other_process"`
	Preempted    []int   `json:"preempted"` // 1 = yes
	Stack        []int   `json:"stack"`
	Took         []int64 `json:"took_ns"` // since Began; 0 where there is none
	Text         []int   `json:"text"`
}

// Encode returns the form of a recording that a Trace keeps. A recording that is too large for a Trace is
// replaced by one that says so.
func Encode(r *Recording) (bench.TraceEvent, error) {
	e := bench.TraceEvent{Name: eventName, Source: "kernel", Attributes: []bench.Label{{Key: keyFormat, Value: format}}}
	if r.Failed != "" {
		e.Attributes = append(e.Attributes, bench.Label{Key: keyFailed, Value: r.Failed})
		return e, nil
	}
	packed, err := pack(columnsOf(r))
	if err != nil {
		return e, err
	}
	if len(packed) > maxSize {
		failed := fmt.Sprintf("its %d events are too many to be kept", len(r.Events))
		e.Attributes = append(e.Attributes, bench.Label{Key: keyFailed, Value: failed})
		return e, nil
	}
	e.Attributes = append(e.Attributes, bench.Label{Key: keyEvents, Value: packed})
	return e, nil
}

func columnsOf(r *Recording) *columns {
	texts := map[string]int{}
	c := &columns{Processes: r.Processes, Lost: r.Lost, NoStack: r.NoStack}
	intern := func(s string) int {
		i, ok := texts[s]
		if !ok {
			i = len(c.Texts)
			texts[s] = i
			c.Texts = append(c.Texts, s)
		}
		return i
	}
	for _, stack := range r.Stacks {
		functions := make([]int, len(stack))
		for i, name := range stack {
			functions[i] = intern(name)
		}
		c.Stacks = append(c.Stacks, functions)
	}
	for i, e := range r.Events {
		before := e.At
		if i > 0 {
			before = r.Events[i-1].At
		} else {
			c.First = int64(e.At)
		}
		took, preempted := int64(0), 0
		if e.inCall() {
			took = int64(e.At - e.Began)
		}
		if e.Preempted {
			preempted = 1
		}
		c.After, c.Kind, c.Took = append(c.After, int64(e.At-before)), append(c.Kind, e.Kind), append(c.Took, took)
		c.Thread, c.Process = append(c.Thread, e.Thread), append(c.Process, e.Process)
		c.Other, c.OtherProcess = append(c.Other, e.Other), append(c.OtherProcess, e.OtherProcess)
		c.Preempted, c.Stack = append(c.Preempted, preempted), append(c.Stack, e.Stack)
		c.Text = append(c.Text, intern(e.Text))
	}
	return c
}

func pack(c *columns) (string, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	err := json.NewEncoder(w).Encode(c)
	if err = errors.Join(err, w.Close()); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

// ErrNone is the error of decoding a trace that has no recording.
var ErrNone = errors.New("it has no recording")

// Decode reads the recording of a Trace, which may come from anywhere.
func Decode(t *bench.Trace) (*Recording, error) {
	if t == nil {
		return nil, ErrNone
	}
	i := slices.IndexFunc(t.Events, func(e bench.TraceEvent) bool { return e.Name == eventName })
	if i < 0 {
		return nil, ErrNone
	}
	attributes := map[string]string{}
	for _, a := range t.Events[i].Attributes {
		attributes[a.Key] = a.Value
	}
	switch {
	case attributes[keyFormat] != format:
		return nil, fmt.Errorf("its recording has format %.20q, and this tare reads %q", attributes[keyFormat], format)
	case attributes[keyFailed] != "":
		return &Recording{Failed: attributes[keyFailed]}, nil
	}
	c, err := unpack(attributes[keyEvents])
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return nil, fmt.Errorf("its recording cannot be read: %w", err)
	}
	return c.recording(), nil
}

func unpack(packed string) (*columns, error) {
	zipped, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxText+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxText {
		return nil, fmt.Errorf("it has more than %d bytes", maxText)
	}
	// Each process has a brace and each stack a bracket, and few texts have any: far too many are not even made.
	if bytes.Count(text, []byte("{")) > maxProcesses+maxTexts || bytes.Count(text, []byte("[")) > maxEvents+maxTexts {
		return nil, errors.New("it has too many processes or stacks")
	}
	c := &columns{}
	return c, json.Unmarshal(text, c)
}

// check refuses columns of different lengths, and references to what there is not.
func (c *columns) check() error {
	n := len(c.After)
	if n > maxEvents {
		return fmt.Errorf("it has %d events, and at most %d can be read", n, maxEvents)
	}
	for _, length := range []int{
		len(c.Kind), len(c.Thread), len(c.Process), len(c.Other), len(c.OtherProcess), len(c.Preempted), len(c.Stack),
		len(c.Took), len(c.Text),
	} {
		if length != n {
			return fmt.Errorf("it has %d times, but %d values of something else", n, length)
		}
	}
	for _, l := range []struct {
		name    string
		n, most int
	}{
		{"processes", len(c.Processes), maxProcesses},
		{"stacks", len(c.Stacks), maxEvents},
		{"texts", len(c.Texts), maxTexts},
	} {
		if l.n > l.most {
			return fmt.Errorf("it has %d %s, and at most %d can be read", l.n, l.name, l.most)
		}
	}
	for _, s := range c.Texts {
		if len(s) > maxLength {
			return fmt.Errorf("it has a text of %d bytes, and at most %d can be read", len(s), maxLength)
		}
	}
	for _, stack := range c.Stacks {
		if len(stack) > maxDepth {
			return fmt.Errorf("it has a stack of %d functions, and at most %d can be read", len(stack), maxDepth)
		}
		if !within(stack, 0, len(c.Texts)) {
			return errors.New("a stack has a function without a name")
		}
	}
	numbers := slices.Concat(c.Thread, c.Process, c.Other, c.OtherProcess)
	for _, p := range c.Processes {
		numbers = append(numbers, p.ID, p.Parent)
	}
	switch {
	case !within(c.Text, 0, len(c.Texts)):
		return errors.New("an event has a text that there is not")
	case !within(c.Stack, -1, len(c.Stacks)):
		return errors.New("an event has a stack that there is not")
	case !within(numbers, 0, maxNumber):
		return errors.New("a process has no valid number")
	case c.Lost < 0:
		return fmt.Errorf("%d events were lost", c.Lost)
	case c.NoStack < 0:
		return fmt.Errorf("%d events have no stack", c.NoStack)
	case c.First < -int64(maxTime) || c.First > int64(maxTime):
		return errors.New("its first event is not in the trial")
	}
	room := int64(maxTime)
	for i := range n {
		room -= max(c.After[i], 0)
		if c.After[i] < 0 || room < 0 || c.Took[i] < 0 || c.Took[i] > int64(maxTime) {
			return fmt.Errorf("event %d is at no valid time", i)
		}
		if c.Kind[i] < Fork || c.Kind[i] > Group {
			return fmt.Errorf("event %d is of kind %d", i, c.Kind[i])
		}
	}
	return nil
}

// within reports whether all numbers are from least to below end.
func within(all []int, least, end int) bool {
	return !slices.ContainsFunc(all, func(n int) bool { return n < least || n >= end })
}

func (c *columns) recording() *Recording {
	r := &Recording{Processes: c.Processes, Lost: c.Lost, NoStack: c.NoStack, Events: make([]Event, len(c.After))}
	for _, stack := range c.Stacks {
		names := make([]string, len(stack))
		for i, text := range stack {
			names[i] = c.Texts[text]
		}
		r.Stacks = append(r.Stacks, names)
	}
	at := time.Duration(c.First)
	for i := range r.Events {
		at += time.Duration(c.After[i])
		e := Event{
			At: at, Kind: c.Kind[i], Thread: c.Thread[i], Process: c.Process[i], Other: c.Other[i],
			OtherProcess: c.OtherProcess[i], Preempted: c.Preempted[i] != 0, Stack: c.Stack[i], Text: c.Texts[c.Text[i]],
		}
		if e.inCall() {
			e.Began = at - time.Duration(c.Took[i])
		}
		r.Events[i] = e
	}
	return r
}
