package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// A Washout waits between trials until what the last one left is gone. It is
// used by one goroutine.
type Washout struct {
	sampler *proc.Sampler
	cgroup  *os.File // cgroup.procs of tare's own group; nil where it may not be written
	now     proc.Snapshot
	dirty   float64 // bytes that waited to be written when the run began
	sync    func()  // unix.Sync, but in tests
}

const (
	// slack is how much more data may wait to be written than when the run
	// began. Engines, logs and tare's own store write a little all the time, and
	// to have it written takes hundreds of milliseconds, however little it is.
	slack = 32 << 20
	// firstPause is the distance of the two looks that must both be quiet; it
	// grows up to longestPause while the machine is not.
	firstPause   = time.Millisecond
	longestPause = 10 * time.Millisecond
)

// OpenWashout remembers what the machine is like now, at a run's beginning.
func OpenWashout(root string) (*Washout, error) {
	s, err := proc.Open(root, proc.Stat, proc.Meminfo)
	if err != nil {
		return nil, fmt.Errorf("washout: %w", err)
	}
	w := &Washout{sampler: s, sync: unix.Sync, cgroup: ownGroup(root)}
	s.Read(&w.now)
	w.dirty = w.now[proc.Dirty]
	return w, nil
}

// Settle waits until the machine is quiet in two looks in a row: nothing but
// tare is ready to run, nothing waits for a disk, and no data of the last
// trial waits to be written. It says how long it waited, and whether the
// machine became quiet within limit and before ctx ended. On a quiet machine it
// costs 1 ms.
func (w *Washout) Settle(ctx context.Context, limit time.Duration) (waited time.Duration, settled bool) {
	begin := time.Now()
	defer w.wake()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	quiet, pause := 0, firstPause
	for synced := false; ctx.Err() == nil; {
		if w.look() {
			quiet, pause = quiet+1, firstPause
		} else {
			quiet, pause = 0, min(2*pause, longestPause)
		}
		switch {
		case quiet == 2:
			return time.Since(begin), true
		case w.unwritten() && !synced:
			synced = true
			w.write(ctx)
		default:
			rest(pause)
		}
	}
	return time.Since(begin), false
}

// write has everything written to disk. Left alone, the kernel would begin to
// after 5 to 30 s, in the middle of some other trial. It cannot be interrupted:
// when ctx ends first, it goes on beside what follows.
func (w *Washout) write(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		w.sync()
		close(done)
	}()
	select {
	case <-ctx.Done():
	case <-done:
	}
}

// wake brings the kernel's lock on control groups into the state of a machine
// on which groups change. Some 20 ms after the last change, the kernel gives
// that lock back to the readers, and the next change waits for an RCU grace
// period: 6 to 15 ms, as much as a whole start of a container. Whether a trial
// would pay that depends on how long ago the trial before it ended, and on
// nothing that is compared. So it is paid here, by moving tare to the group
// that it is in; twice, because a second change within the grace period makes
// the kernel keep the lock ready for one more: measured, for more than 20 ms
// instead of 12.
func (w *Washout) wake() {
	if w.cgroup == nil {
		return
	}
	for range 2 {
		_, _ = w.cgroup.WriteAt([]byte("0"), 0) // refused, it is no worse than not tried
	}
}

// ownGroup opens the list of processes of tare's own group, in any hierarchy:
// the lock is the same for all.
func ownGroup(root string) *os.File {
	h, err := cgroup.Detect(root)
	if err != nil {
		return nil
	}
	paths, err := h.PathOf(0)
	if err != nil {
		return nil
	}
	for controller, path := range paths {
		dir, err := h.Dir(path, controller)
		if err != nil {
			continue
		}
		if f, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0); err == nil {
			return f
		}
	}
	return nil
}

// rest sleeps in the kernel. A timer of the runtime would wake other threads of
// tare together with this one, and they would look like somebody else's work.
func rest(d time.Duration) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&t, nil) // a signal makes the rest shorter, which is no harm
}

const (
	// looks is how often what is not quiet is looked at before it is believed.
	looks = 8
	// blink lies between them. A thread of tare's own runtime that has something
	// to do for a few microseconds may be waiting for the very CPU that looks.
	blink = 50 * time.Microsecond
)

func (w *Washout) look() bool {
	for range looks {
		w.sampler.Read(&w.now)
		if w.quiet() {
			return true
		}
		rest(blink)
	}
	return false
}

// quiet compares so that what this machine does not tell counts as quiet.
func (w *Washout) quiet() bool {
	const own = 1 // the thread that reads
	return !(w.now[proc.Running] > own) && !(w.now[proc.Blocked] > 0) && !(w.now[proc.Writeback] > 0) && !w.unwritten()
}

func (w *Washout) unwritten() bool { return w.now[proc.Dirty] > w.dirty+slack }

// Close closes the files.
func (w *Washout) Close() error {
	err := w.sampler.Close()
	if w.cgroup != nil {
		err = errors.Join(err, w.cgroup.Close())
	}
	return err
}

// DropCaches writes everything to disk and then makes the kernel forget its
// cached files, directory entries and inodes. Its error wraps
// bench.ErrUnsupported where this process may not. When ctx ends first it
// returns, but the kernel finishes what it began.
func DropCaches(ctx context.Context) error {
	return dropCaches(ctx, "/proc/sys/vm/drop_caches")
}

func dropCaches(ctx context.Context, name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("drop caches: %w: %w; run tare as root on the host itself", bench.ErrUnsupported, err)
	}
	if err != nil {
		return fmt.Errorf("drop caches: %w", err)
	}
	done := make(chan error, 1)
	go func() {
		unix.Sync() // only what is on disk can be forgotten
		_, err := f.WriteString("3")
		done <- errors.Join(err, f.Close())
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("drop caches: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drop caches: %w", ctx.Err())
	}
}
