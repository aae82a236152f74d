package turn_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
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
	// A share of 12 slices takes at most 12 turns, and fewer where operations outlast their slices; but one more if a
	// thread is kept from its CPU until both its share and its last slice are over. The whole stage takes one, and so
	// does the way from one report to the next.
	if most := stages*13 + 2; giver.Stage() != stages+1 || given < stages+2 || given > most {
		t.Errorf("%d stages in %d turns; want %d in at most %d", giver.Stage(), given, stages+1, most)
	}
}

// A stage can have shorter slices than it is given, whose speeds count as well.
func TestAtMost(t *testing.T) {
	page, giver := pair(t)
	made := make(chan *turn.Stage, 1)
	go func() {
		stage := page.Stage(1).AtMost(slice)
		clock := stage.Clock(time.Now())
		for now := time.Duration(0); now < 20*slice; {
			clock.Did(1)
			now = clock.Now()
			clock.Pause(now)
		}
		clock.End()
		page.Reported(true)
		made <- stage
	}()
	if err := giver.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	given := 0
	for ; giver.Reports() == 0; given++ {
		if err := giver.Give(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if speeds := (<-made).Slices(); given < 3 || len(speeds) < 2 || slices.Min(speeds) <= 0 {
		t.Errorf("%d turns, slices %v; a slice is a twentieth of the work", given, speeds)
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

// A process that keeps a turn of a slice fails alone, without anybody's limit; one that prepares a stage may take
// its time.
func TestTurnThatIsKept(t *testing.T) {
	page, giver := pair(t)
	giver.Patience(20 * time.Millisecond)
	free := make(chan struct{})
	defer close(free)
	go func() {
		time.Sleep(100 * time.Millisecond) // it prepares
		clock := page.Stage(1).Clock(time.Now())
		<-free
		clock.End()
	}()
	if err := giver.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := giver.Give(t.Context(), slice); err == nil || !strings.Contains(err.Error(), "did not rest within") {
		t.Errorf("Give = %v, want that it kept its turn", err)
	}
}

// What turns cost is counted for slices alone, and so is how fast they were.
func TestCost(t *testing.T) {
	page, giver := pair(t)
	speeds := make(chan []float64, 1)
	go func() {
		stage := page.Stage(2)
		began := time.Now()
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				clock := stage.Clock(began)
				for now := clock.Now(); now < 50*slice; {
					time.Sleep(slice / 10)
					before := now
					now = clock.Now()
					clock.Did((now - before).Seconds())
					clock.Pause(now)
				}
				clock.End()
			})
		}
		both.Wait()
		speeds <- stage.Slices()
		page.Reported(true)
	}()
	if err := giver.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	for giver.Reports() < 1 {
		if err := giver.Give(t.Context(), slice); err != nil {
			t.Fatal(err)
		}
	}
	cost, all := giver.Cost(), <-speeds
	if cost.Turns < 2 || cost.Spent < time.Duration(cost.Turns-1)*slice || cost.Lost <= 0 || cost.Lost >= cost.Spent {
		t.Errorf("cost %+v", cost)
	}
	if len(all) < cost.Turns-1 || len(all) > cost.Turns {
		t.Errorf("%d slices in %d turns", len(all), cost.Turns)
	}
	// Two threads do their work in the same time. One may rest before the other, or wait for a CPU.
	for i, speed := range all {
		if speed <= 0 || speed > 2.000001 {
			t.Errorf("slice %d: two threads worked for %v s per second", i, speed)
		}
	}
	if got := cost.Minus(cost); got != (turn.Cost{}) {
		t.Errorf("nothing is %+v", got)
	}
}

// otherClock makes this test the process with turns, in a time namespace whose clock is ahead.
const otherClock = "TARE_TEST_OTHER_CLOCK"

// Process and host need not share a clock: only lengths of time are in the page.
func TestOtherClock(t *testing.T) {
	if os.Getenv(otherClock) != "" {
		page, err := turn.NewPage(func(err error) { t.Error(err) })
		if err != nil {
			t.Fatal(err)
		}
		clock := page.Stage(1).Clock(time.Now())
		for now := time.Duration(0); now < 50*slice; {
			now = clock.Now()
			clock.Did(1)
			clock.Pause(now)
		}
		clock.End()
		page.Reported(true)
		return
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--time", "--monotonic", "1000000", "--fork", "--kill-child",
		os.Args[0], "-test.run=^TestOtherClock$")
	cmd.Env = append(os.Environ(), otherClock+"=yes")
	if err := exec.Command("unshare", "--time", "--monotonic", "1000000", "--fork", "true").Run(); err != nil {
		t.Skipf("no time namespace can be made here: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	giver, err := turn.Open(t.Context(), childOf(t, cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = giver.Close() }() // only memory
	if err := giver.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	for giver.Reports() < 1 {
		if err := giver.Give(t.Context(), slice); err != nil {
			t.Fatal(err)
		}
	}
	if cost := giver.Cost(); cost.Turns < 2 || cost.Lost <= 0 || cost.Lost >= cost.Spent {
		t.Errorf("cost %+v", cost)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// childOf returns the only child of a process, once it has one.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	for range 1000 {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		if err != nil {
			t.Fatal(err)
		}
		if child, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			return child
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("it has no child")
	return 0
}

// A process whose tare is gone does not wait for its next turn for ever.
func TestNobodyGivesTurns(t *testing.T) {
	failed := make(chan error, 1)
	page, err := turn.NewPage(func(err error) {
		failed <- err
		runtime.Goexit() // as a process ends
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(turn.FD) }()
	page.Patience(20 * time.Millisecond)
	go page.Whole()
	select {
	case err := <-failed:
		if !strings.Contains(err.Error(), "is tare still there?") {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it still waits")
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
