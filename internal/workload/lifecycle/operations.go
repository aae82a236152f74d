package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// The operations of a sequence, besides Create, Start and Remove. Their names are also
// those of their metrics; only Wait's metric is Exit.
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

// A state is the state of a container between two operations, as a predicate.
type state string

const (
	absent       state = "does not exist yet"
	created      state = "is created but not started"
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
	do   func(l *lifecycleRun, ctx context.Context) error
	// unsupportedWhy returns why an engine does not support it; nil = every engine does.
	unsupportedWhy func(ctx context.Context, e bench.Engine) error
}

// operations lists every operation.
func operations() []operation {
	run := []state{running}
	return []operation{
		{Create, []state{absent}, created, (*lifecycleRun).create, nil},
		{Start, []state{created}, running, (*lifecycleRun).start, nil},
		{Wait, run, exited, (*lifecycleRun).wait, nil},
		{Pause, run, paused, by(Pause, bench.Pauser.Pause), capability[bench.Pauser]("pause")},
		{Resume, []state{paused}, running, by(Resume, bench.Pauser.Resume), capability[bench.Pauser]("pause")},
		{Exec, run, running, (*lifecycleRun).exec, capability[bench.Execer]("run another program in")},
		{Signal, run, running, (*lifecycleRun).signal, capability[bench.Signaler]("send signals to")},
		{Stop, run, exited, (*lifecycleRun).stop, cannotStop},
		{Kill, run, exited, (*lifecycleRun).kill, capability[bench.Signaler]("send signals to")},
		{Checkpoint, run, checkpointed, by(Checkpoint, bench.Checkpointer.Checkpoint), cannotCheckpoint},
		{Restore, []state{checkpointed}, running, by(Restore, bench.Checkpointer.Restore), cannotCheckpoint},
		{Remove, []state{created, running, paused, checkpointed, exited}, removed, (*lifecycleRun).remove, nil},
	}
}

// capability returns a check that an engine is a T, which can do something to containers.
func capability[T any](does string) func(context.Context, bench.Engine) error {
	return func(_ context.Context, e bench.Engine) error {
		if _, ok := bench.As[T](e); ok {
			return nil
		}
		return fmt.Errorf("%w: engine %s cannot %s containers", bench.ErrUnsupported, e.Name(), does)
	}
}

func cannotStop(ctx context.Context, e bench.Engine) error {
	if _, ok := bench.As[bench.Stopper](e); ok {
		return nil
	}
	return capability[bench.Signaler]("stop")(ctx, e)
}

func cannotCheckpoint(ctx context.Context, e bench.Engine) error {
	c, ok := bench.As[bench.Checkpointer](e)
	if !ok {
		return capability[bench.Checkpointer]("checkpoint")(ctx, e)
	}
	return c.Checkpointable(ctx)
}

// A sequence lists the operations on a container, from create to remove.
type sequence []operation

// defaultSequence is the sequence for a container that ends by itself.
const defaultSequence = "create,start,wait,remove"

// parseSequence reads names, separated by commas. Its error is a *bench.ListItemError.
func parseSequence(text string) (sequence, error) {
	all := operations()
	var s sequence
	now := absent
	for i, name := range strings.Split(text, ",") {
		name = strings.TrimSpace(name)
		at := slices.IndexFunc(all, func(o operation) bool { return o.name == name })
		if at < 0 {
			return nil, wordError(i, "there is no operation %.40q: use %s", name, strings.Join(operationNames(), ", "))
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
	return &bench.ListItemError{Word: word, Err: fmt.Errorf(format, args...)}
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

// holds reports whether the process inside must stay until stop or kill ends it.
func (s sequence) holds() bool {
	return slices.ContainsFunc(s, func(o operation) bool {
		return !slices.Contains([]string{Create, Start, Wait, Remove}, o.name)
	}) || !s.has(Wait) && s.has(Start)
}

// check returns why an engine does not support the sequence.
func (s sequence) check(ctx context.Context, e bench.Engine) error {
	for _, o := range s {
		if o.unsupportedWhy == nil {
			continue
		}
		if err := o.unsupportedWhy(ctx, e); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	return nil
}

func validSequence(text string) error {
	_, err := parseSequence(text)
	return err
}
