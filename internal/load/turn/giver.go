package turn

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrPage is wrapped by Open's error where the page of a process cannot be had: a sandbox hides its
// processes, or the permission is missing.
var ErrPage = errors.New("no page for turns")

// late is how long a process may take to end its turn once the slice is over: it finishes the
// operation that it has begun.
const late = 10 * time.Second

// A Giver is the host's end of a page. It is for one goroutine.
type Giver struct {
	words *words
	turn  uint32
	slice time.Duration // of the last turn
	late  time.Duration
	cost  Cost
}

// A Cost says what turns have cost so far.
type Cost struct {
	Turns int
	// Spent is the time from giving each of those turns that lasted for a slice to having it back, Lost
	// the part of it in which the process did not measure: the way to it and back, and what a load
	// leaves out at the beginning of a slice and at its end. Turns in which a stage ended, or a
	// report was made, are not in either.
	Spent, Lost time.Duration
}

// Minus subtracts a cost that was told before.
func (c Cost) Minus(before Cost) Cost {
	return Cost{c.Turns - before.Turns, c.Spent - before.Spent, c.Lost - before.Lost}
}

// Cost returns what the turns have cost so far.
func (g *Giver) Cost() Cost { return g.cost }

// Open opens the page of a process of this host, which may still be about to make it. The process has its
// first turn: Await waits for its end.
func Open(ctx context.Context, pid int) (*Giver, error) {
	const (
		within = 5 * time.Second
		hidden = 200 * time.Millisecond // while a runtime prepares it, nobody may look into the process
	)
	for began := time.Now(); ; time.Sleep(200 * time.Microsecond) {
		g, err := open(pid)
		switch {
		case err == nil:
			return g, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case time.Since(began) > within,
			time.Since(began) > hidden && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)):
			return nil, fmt.Errorf("%w: %w", ErrPage, err)
		}
	}
}

func open(pid int) (*Giver, error) {
	fd, err := openOf(pid)
	if err != nil {
		return nil, err
	}
	w, err := mapPage(fd)
	if err := errors.Join(err, unix.Close(fd)); err != nil {
		return nil, err
	}
	if w.version.Load() != version {
		g := &Giver{words: w}
		err := fmt.Errorf("process %d is about to make its page, or it is another form of one", pid)
		return nil, errors.Join(err, g.Close())
	}
	return &Giver{words: w, turn: 1, late: late}, nil
}

// Close unmaps the page. It may be called twice.
func (g *Giver) Close() error {
	if g.words == nil {
		return nil
	}
	memory := unsafe.Slice((*byte)(unsafe.Pointer(g.words)), pageSize)
	g.words = nil
	return unix.Munmap(memory)
}

// Give gives a turn of a slice, and returns when the process has ended it. See Await.
func (g *Giver) Give(ctx context.Context, slice time.Duration) error {
	g.slice = slice
	g.words.slice.Store(int64(slice))
	stage, reports, worked, began := g.Stage(), g.Reports(), g.words.worked.Load(), time.Now()
	g.turn++
	g.words.turn.Store(g.turn)
	wake(&g.words.turn)
	err := g.Await(ctx)
	g.cost.Turns++
	if err == nil && g.Stage() == stage && g.Reports() == reports {
		spent := time.Since(began)
		g.cost.Spent += spent
		g.cost.Lost += min(max(spent-time.Duration(g.words.worked.Load()-worked), 0), spent) // whatever it says
	}
	return err
}

// Await returns when the process has ended its turn. It is an error if ctx ends before, or if the
// process does not return its turn long after the slice.
func (g *Giver) Await(ctx context.Context) error {
	began, sliced := time.Now(), time.Duration(0)
	for {
		done := g.words.done.Load()
		if done == g.turn {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if now := time.Since(began); g.words.sliced.Load() == 0 {
			sliced = now
		} else if now-sliced > g.slice+g.late {
			return fmt.Errorf("the load did not rest within %v after its turn of %v: it was stopped, or one request took "+
				"that long; use --interleave off", g.late, g.slice)
		}
		_ = wait(&g.words.done, done, poll) // whatever woke it, it looks again
	}
}

// Stage returns how many stages the process has reached.
func (g *Giver) Stage() int { return int(g.words.stage.Load()) }

// Reports returns how many loads of the process have reported.
func (g *Giver) Reports() int { return int(g.words.reports.Load()) }
