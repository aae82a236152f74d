package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The names of the states that say how much of a trial measured something, and what its turns cost: see package
// supervise. A part of a workload can have its own, with its name before them.
const (
	StateMeasured  = "trial.measured"
	StateTurns     = "trial.turns"
	StateTurnsTime = "trial.turns_time"
	StateTurnsLost = "trial.turns_lost"
)

// Turns lets the cells of a block take turns of a few milliseconds, so that what disturbs the machine
// for longer disturbs all of them alike. Between two turns a cell uses no CPU.
type Turns interface {
	// Wait returns when it is the trial's turn, and how long the turn is. A trial that does
	// not wait keeps its turn. New says that what it will do in it is a new stage: in the cells of a
	// block, stages with the same number take turns with one another.
	Wait(ctx context.Context, new bool) (slice time.Duration, err error)
	// WaitSettled is Wait for a new stage that begins with a new container: first the effects of what the other
	// cells have just done are gone, as before a trial.
	WaitSettled(ctx context.Context) error
	// Part says that what follows belongs to the part of this number, from 0, of what all cells do. The
	// stages of a part come after those of the parts before it, in all cells alike.
	Part(number int)
	// On reports whether the cell takes turns in the present trial.
	On() bool
}

// ErrNoTurns is wrapped by the error of a trial whose container cannot be given turns: a sandbox hides
// its processes, or a permission is missing. The trials of its condition run whole, this one too.
var ErrNoTurns = errors.New("its container cannot be given turns")

// ErrPeriodicLimit is wrapped by the error of a trial whose container must not be given turns: by its
// engine's default it has a limit that works in periods or by tokens. It wraps ErrNoTurns.
var ErrPeriodicLimit = fmt.Errorf("%w: it has a limit that works in periods", ErrNoTurns)

// A Hoarder is a TurnTaker whose cells keep much memory while they rest.
type Hoarder interface {
	// RestingMemory returns how many bytes a cell with these options keeps.
	RestingMemory(params map[string]string) int64
}

// A TurnRefuser is a Workload whose trials must not overlap with others of the block.
type TurnRefuser interface {
	RefusesTurns(params map[string]string) bool
}

// A TurnTaker is a Workload with stages in which cells can take turns.
type TurnTaker interface {
	// TakesTurns reports whether it has any with these options, which are as in Task.
	TakesTurns(params map[string]string) bool
}

// A Switcher is an Instrument that can watch trials that take turns.
type Switcher interface {
	Instrument
	// Suspend stops watching the present trial. Resume goes on, after others were watched.
	Suspend() (resume func())
}
