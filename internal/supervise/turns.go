package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load/turn"
)

// turns are the turns of a process.
type turns struct {
	from  bench.Turns
	giver *turn.Giver // nil if the process takes none
	stage int         // that the process had reached at the end of its last turn
	cost  turn.Cost   // at the last newCost
	lost  error       // why the process cannot be given turns any more
}

// newCost returns what the turns have cost since the last newCost.
func (t *turns) newCost() turn.Cost {
	before := t.cost
	t.cost = t.giver.Cost()
	return t.cost.Minus(before)
}

// TakeTurns lets a process that has just been started take turns with those of other cells, from now
// until it has reported. It returns when the process has used its first turn, in which it
// prepares the first stage of its first load. The process is one of Loads, or of LoadsBy,
// with the same turns; nil = it takes none.
func (p *Process) TakeTurns(ctx context.Context, from bench.Turns) error {
	if !taken(from) {
		return nil
	}
	if _, ok := bench.As[bench.ProcessReporter](p.engine); !ok {
		return p.named(fmt.Errorf("%w: its engine does not tell its process", bench.ErrNoTurns))
	}
	return p.WhileRunning(ctx, func(ctx context.Context) (err error) {
		if err := p.CheckTurns(ctx, from); err != nil {
			return err
		}
		p.turns.giver, err = turn.Open(ctx, p.first.PID)
		switch {
		case errors.Is(err, turn.ErrPage):
			return p.named(fmt.Errorf("%w: %w", bench.ErrNoTurns, err))
		case err != nil:
			return err
		}
		p.turns.from = from
		return p.named(p.turns.giver.Await(ctx))
	})
}

// CheckTurns returns an error if the process must not rest between turns, because of a limit that the
// kernel has for it. Whoever takes turns as the client of a process calls it for that one.
func (p *Process) CheckTurns(ctx context.Context, from bench.Turns) error {
	if !taken(from) {
		return nil
	}
	p.ownEnv.together = true
	if !p.find(ctx) {
		return p.unseen(ctx, errors.New("its process was not found"))
	}
	what, err := p.ownEnv.periodicLimit(p.first.PID)
	switch {
	case err != nil:
		return p.unseen(ctx, fmt.Errorf("read its limits: %w", err))
	case what != "":
		return p.named(fmt.Errorf("%w: %s", bench.ErrPeriodicLimit, what))
	}
	return nil
}

// unseen is the error of a process whose limits cannot be read, as where its engine's daemon is in another PID namespace:
// it takes no turns, unless it has just ended.
func (p *Process) unseen(ctx context.Context, why error) error {
	const soon = 200 * time.Millisecond
	short, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	if err := p.ended(short); short.Err() == nil {
		return p.named(err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return p.named(fmt.Errorf("%w: %w", bench.ErrNoTurns, why))
}

// LastTurn waits until all cells have measured what their containers are there for. The removal of one is much work for its
// engine, which the others' last stretches would feel.
func LastTurn(ctx context.Context, from bench.Turns) error {
	if !taken(from) {
		return nil
	}
	_, err := from.Wait(ctx, true)
	return err
}

// CheckPort returns an error if a server on that port of that network (see bench.Spec) must not be alive beside
// those of other cells: it would be the same port of the host.
func CheckPort(from bench.Turns, network string, port uint16) error {
	if !taken(from) || OwnNetwork(network) {
		return nil
	}
	return fmt.Errorf("%w: its server has port %d of the host, which those of other cells want too", bench.ErrNoTurns, port)
}

// taken reports whether there are turns to take at present.
func taken(t bench.Turns) bool { return t != nil && t.On() }

// giveUntil gives turns until n loads of the process have reported.
func (t *turns) giveUntil(ctx context.Context, n int) error {
	for t.giver.Reports() < n {
		if t.lost != nil { // what it still does is in others' turns
			return t.lost
		}
		begins := t.giver.Stage() != t.stage
		t.stage = t.giver.Stage()
		slice, err := t.from.Wait(ctx, begins)
		if err != nil {
			return err
		}
		if t.lost = t.giver.Give(ctx, slice); t.lost != nil {
			return t.lost
		}
	}
	return nil
}

// close gives no more turns. It may be called twice.
func (t *turns) close() {
	if t.giver != nil {
		_ = t.giver.Close() // only memory that nobody else needs
		t.giver = nil
	}
}
