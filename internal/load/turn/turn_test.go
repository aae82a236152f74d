package turn_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/load/turn"
)

const slice = 2 * time.Millisecond

// pair returns both ends of a page: this process gives turns to itself.
func pair(t *testing.T) (*turn.Page, *turn.Giver) {
	t.Helper()
	page, err := turn.NewPage(func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	giver, err := turn.Open(t.Context(), os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(giver.Close(), unix.Close(turn.FD)); err != nil {
			t.Error(err)
		}
	})
	return page, giver
}

// Threads work in their turns and at no other time, their clocks stand still in between, and stages
// and reports are counted.
func TestTurns(t *testing.T) {
	page, giver := pair(t)
	const threads, stages = 3, 2
	var steps atomic.Int64
	var mine atomic.Bool // it is the process's turn
	mine.Store(true)
	work := func(stage *turn.Stage, began time.Time, share time.Duration) {
		clock := stage.Clock(began)
		for now := time.Duration(0); now < share; {
			if !mine.Load() {
				t.Error("a thread works while others have the turn")
			}
			steps.Add(1)
			now = clock.Now()
			clock.Pause(now)
		}
		clock.End()
	}
	go func() {
		for range stages {
			stage := page.Stage(threads)
			began := time.Now()
			var all sync.WaitGroup
			for i := range threads { // the last one has the longest share
				all.Go(func() { work(stage, began, time.Duration(i+1)*4*slice) })
			}
			all.Wait()
		}
		page.Whole()
		page.Reported(false)
		page.Reported(true)
	}()

	if err := giver.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	given := 0
	for giver.Reports() < 2 {
		mine.Store(false)
		before := steps.Load()
		time.Sleep(slice)
		if got := steps.Load() - before; got != 0 {
			t.Errorf("%d steps while nobody had the turn", got)
		}
		mine.Store(true)
		if err := giver.Give(t.Context(), slice); err != nil {
			t.Fatal(err)
		}
		given++
	}
	// A share of 12 slices takes at most 12 turns, and fewer where operations outlast their slices. The
	// whole stage takes one, and so does the way from one report to the next.
	if most := stages*12 + 2; giver.Stage() != stages+1 || given < stages+2 || given > most {
		t.Errorf("%d stages in %d turns; want %d in at most %d", giver.Stage(), given, stages+1, most)
	}
}

// A clock of nobody's turn is that of the machine.
func TestAlone(t *testing.T) {
	var none *turn.Page
	stage := none.Stage(1)
	began := time.Now()
	clock := stage.Clock(began)
	time.Sleep(time.Millisecond)
	now := clock.Now()
	clock.Pause(now)
	if clock.Over(now) || now < time.Millisecond || clock.Now() < now || clock.Began() != began {
		t.Errorf("the clock shows %v after 1ms", now)
	}
	clock.End()
	none.Whole()
	none.Reported(true)
}

// Whoever does not end a turn is waited for as long as the caller wants.
func TestTurnThatDoesNotEnd(t *testing.T) {
	_, giver := pair(t)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(5*time.Millisecond, func() { cancel(why) })
	if err := giver.Await(ctx); !errors.Is(err, why) {
		t.Errorf("Await = %v, want the cause", err)
	}
}

// What is at the descriptor of a process may be anything. Nothing else than a page is mapped.
func TestNoPage(t *testing.T) {
	short, stop := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer stop()
	if _, err := turn.Open(short, os.Getpid()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a page: %v, want the deadline", err)
	}
	for name, make := range map[string]func(path string) (int, error){
		"a file of the same size": func(path string) (int, error) {
			if err := os.WriteFile(path, []byte(strings.Repeat("x", 4096)), 0o600); err != nil {
				return 0, err
			}
			return unix.Open(path, unix.O_RDWR, 0)
		},
		"a pipe that nobody writes": func(path string) (int, error) {
			if err := unix.Mkfifo(path, 0o600); err != nil {
				return 0, err
			}
			return unix.Open(path, unix.O_RDWR, 0)
		},
		"a page that can shrink": func(string) (int, error) {
			fd, err := unix.MemfdCreate("x", unix.MFD_ALLOW_SEALING)
			return fd, errors.Join(err, unix.Ftruncate(fd, 4096))
		},
	} {
		t.Run(name, func(t *testing.T) {
			fd, err := make(filepath.Join(t.TempDir(), "x"))
			if err = errors.Join(err, unix.Dup3(fd, turn.FD, unix.O_CLOEXEC), unix.Close(fd)); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = unix.Close(turn.FD) }()
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer stop()
			if _, err := turn.Open(ctx, os.Getpid()); err == nil {
				t.Error("it is taken for a page")
			}
		})
	}
}

// What a turn costs beside what it gives: an empty one, and one of a slice.
func BenchmarkGive(b *testing.B) {
	page, err := turn.NewPage(func(err error) { b.Error(err) })
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = unix.Close(turn.FD) }()
	giver, err := turn.Open(b.Context(), os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		clock := page.Stage(1).Clock(time.Now())
		for {
			clock.Rest(clock.Now())
		}
	}()
	if err := giver.Await(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := giver.Give(b.Context(), 0); err != nil {
			b.Fatal(err)
		}
	}
}
