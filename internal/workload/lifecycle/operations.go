package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// The operations that a sequence is made of. Create, Start, Exit, Remove and
// these are names of metrics too; Wait's metric is Exit.
const (
	Wait       = "wait"
	Pause      = "pause"
	Resume     = "resume"
	Exec       = "exec"
	Signal     = "signal"
	Stop       = "stop"
	Kill       = "kill"
	Checkpoint = "checkpoint"
	Restore    = "restore"
)

// A state is what a container is in, between two operations.
type state string

const (
	absent       state = "does not exist yet"
	created      state = "is created and does not run yet"
	running      state = "runs"
	paused       state = "is paused"
	checkpointed state = "is checkpointed"
	exited       state = "has exited"
	removed      state = "is removed"
)

// An operation is one step of a sequence.
type operation struct {
	name string
	from []state
	to   state
	do   func(l *life, ctx context.Context) error
	// lacks says what keeps an engine from it; nil where every engine can.
	lacks func(ctx context.Context, e bench.Engine) error
}

// operations lists every operation.
func operations() []operation {
	run := []state{running}
	return []operation{
		{Create, []state{absent}, created, (*life).create, nil},
		{Start, []state{created}, running, (*life).start, nil},
		{Wait, run, exited, (*life).wait, nil},
		{Pause, run, paused, by(Pause, bench.Pauser.Pause), capability[bench.Pauser]("pauses")},
		{Resume, []state{paused}, running, by(Resume, bench.Pauser.Resume), capability[bench.Pauser]("pauses")},
		{Exec, run, running, (*life).exec, capability[bench.Execer]("executes further programs in")},
		{Signal, run, running, (*life).signal, capability[bench.Signaler]("sends signals to")},
		{Stop, run, exited, (*life).stop, cannotStop},
		{Kill, run, exited, (*life).kill, capability[bench.Signaler]("sends signals to")},
		{Checkpoint, run, checkpointed, by(Checkpoint, bench.Checkpointer.Checkpoint), cannotCheckpoint},
		{Restore, []state{checkpointed}, running, by(Restore, bench.Checkpointer.Restore), cannotCheckpoint},
		{Remove, []state{created, running, paused, checkpointed, exited}, removed, (*life).remove, nil},
	}
}

// capability wants an engine that is a T, which does something with containers.
func capability[T any](does string) func(context.Context, bench.Engine) error {
	return func(_ context.Context, e bench.Engine) error {
		if _, ok := bench.As[T](e); ok {
			return nil
		}
		return fmt.Errorf("%w: engine %s has nothing that %s containers", bench.ErrUnsupported, e.Name(), does)
	}
}

func cannotStop(ctx context.Context, e bench.Engine) error {
	if _, ok := bench.As[bench.Stopper](e); ok {
		return nil
	}
	return capability[bench.Signaler]("stops")(ctx, e)
}

func cannotCheckpoint(ctx context.Context, e bench.Engine) error {
	c, ok := bench.As[bench.Checkpointer](e)
	if !ok {
		return capability[bench.Checkpointer]("checkpoints")(ctx, e)
	}
	return c.Checkpointable(ctx)
}

// A sequence is what happens to a container, from create to remove.
type sequence []operation

// usual is the sequence of a container that ends by itself.
const usual = "create,start,wait,remove"

// parseSequence reads names with commas. Its error is a *bench.WordError.
func parseSequence(text string) (sequence, error) {
	all := operations()
	var s sequence
	now := absent
	for i, name := range strings.Split(text, ",") {
		name = strings.TrimSpace(name)
		at := slices.IndexFunc(all, func(o operation) bool { return o.name == name })
		if at < 0 {
			return nil, wordError(i, "there is no operation %.40q; there are %s", name, strings.Join(operationNames(), ", "))
		}
		o := all[at]
		if !slices.Contains(o.from, now) {
			return nil, wordError(i, "%s cannot come here: the container %s", name, now)
		}
		s, now = append(s, o), o.to
		if len(s) > maxOperations {
			return nil, wordError(i, "at most %d operations", maxOperations)
		}
	}
	if now != removed {
		return nil, wordError(len(s)-1, "the container %s at the end: the last operation must be remove", now)
	}
	return s, nil
}

// maxOperations bounds a sequence.
const maxOperations = 100

func wordError(word int, format string, args ...any) error {
	return &bench.WordError{Word: word, Err: fmt.Errorf(format, args...)}
}

func operationNames() []string {
	var names []string
	for _, o := range operations() {
		names = append(names, o.name)
	}
	return names
}

func (s sequence) has(name string) bool {
	return slices.ContainsFunc(s, func(o operation) bool { return o.name == name })
}

// holds reports whether the process inside has to stay until it is ended.
func (s sequence) holds() bool {
	return slices.ContainsFunc(s, func(o operation) bool {
		return !slices.Contains([]string{Create, Start, Wait, Remove}, o.name)
	}) || !s.has(Wait) && s.has(Start)
}

// check reports what an engine lacks for the sequence.
func (s sequence) check(ctx context.Context, e bench.Engine) error {
	for _, o := range s {
		if o.lacks == nil {
			continue
		}
		if err := o.lacks(ctx, e); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	return nil
}

func validSequence(text string) error {
	_, err := parseSequence(text)
	return err
}
