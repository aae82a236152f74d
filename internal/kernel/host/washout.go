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

// A Washout waits between trials until the effects of the last one have ended. It is for one
// goroutine.
type Washout struct {
	sampler *proc.Sampler
	cgroup  *os.File // cgroup.procs of tare's own group; nil if tare may not write it
	now     proc.Snapshot
	dirty   float64 // bytes of unwritten data when the run began
	sync    func()  // unix.Sync, except in tests
}

const (
	// dirtySlack is how many more bytes of unwritten data are allowed than when the run began. Engines,
	// logs and tare's own store always write a little, and writing it to disk takes hundreds of
	// milliseconds, however little it is.
	dirtySlack = 32 << 20
	// firstPause is the time between the two checks that must both find the machine quiet. It grows
	// up to longestPause while the machine is not quiet.
	firstPause   = time.Millisecond
	longestPause = 10 * time.Millisecond
)

// OpenWashout notes the machine's state at the beginning of a run.
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

// Settle waits until two checks in a row find the machine quiet: only tare is ready to run, nothing
// waits for a disk, and all data of the last trial has been written. It returns how long it waited,
// and whether the machine became quiet within limit and before ctx ended. On a quiet machine it
// costs 1 ms.
func (w *Washout) Settle(ctx context.Context, limit time.Duration) (waited time.Duration, settled bool) {
	begin := time.Now()
	defer w.warmCgroupLock()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	quiet, pause := 0, firstPause
	for synced := false; ctx.Err() == nil; {
		if w.isQuiet() {
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
			sleepInKernel(pause)
		}
	}
	return time.Since(begin), false
}

// write makes the kernel write everything to disk. Otherwise the kernel would start to do so after
// 5 to 30 s, in the middle of some other trial. It cannot be interrupted: if ctx ends first, it
// continues in the background.
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

// warmCgroupLock puts the kernel's lock on control groups into its state for frequent changes. About 20 ms
// after the last change, the kernel gives that lock back to its readers, and the next change waits
// for an RCU grace period: 6 to 15 ms, as much as a whole start of a container. Whether a trial
// pays that would depend only on how long ago the previous trial ended, and not on what is
// compared. So wake pays it here, by moving tare to the group that it is already in. It does so
// twice, because a second change within the grace period makes the kernel keep the lock ready for
// longer: more than 20 ms instead of 12, as measured.
func (w *Washout) warmCgroupLock() {
	if w.cgroup == nil {
		return
	}
	for range 2 {
		_, _ = w.cgroup.WriteAt([]byte("0"), 0) // if it is refused, nothing is lost
	}
}

// ownGroup opens the list of processes of tare's own group, in any hierarchy, because the lock is
// the same for all.
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

// sleepInKernel sleeps in the kernel. A timer of Go's runtime would also wake other threads of tare, and
// they would look like work of other programs.
func sleepInKernel(d time.Duration) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&t, nil) // a signal may shorten it, which does no harm
}

const (
	// quietChecks is how many checks must find the machine busy before that is believed.
	quietChecks = 8
	// quietInterval is the time between these checks. A thread of tare's own runtime may need the checking
	// CPU for a few microseconds.
	quietInterval = 50 * time.Microsecond
)

func (w *Washout) isQuiet() bool {
	for range quietChecks {
		w.sampler.Read(&w.now)
		if w.quiet() {
			return true
		}
		sleepInKernel(quietInterval)
	}
	return false
}

// quiet reports whether the machine is quiet. Its comparisons take NaN, which is what this machine
// does not tell, as quiet.
func (w *Washout) quiet() bool {
	const own = 1 // the thread that reads
	return !(w.now[proc.Running] > own) && !(w.now[proc.Blocked] > 0) && !(w.now[proc.Writeback] > 0) && !w.unwritten()
}

func (w *Washout) unwritten() bool { return w.now[proc.Dirty] > w.dirty+dirtySlack }

// Close closes the files.
func (w *Washout) Close() error {
	err := w.sampler.Close()
	if w.cgroup != nil {
		err = errors.Join(err, w.cgroup.Close())
	}
	return err
}

// DropCaches writes everything to disk and then makes the kernel forget its
// cached files, directory entries and inodes. Its error wraps bench.ErrUnsupported if this process
// lacks the permission. When ctx ends first, it returns, but the kernel finishes its work.
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
		unix.Sync() // the kernel can drop only what is on disk
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
