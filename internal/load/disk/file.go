package disk

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
	"unsafe"
)

// A file is the test file, opened twice.
type file struct {
	path       string
	system     string // of the file system, such as "ext4"
	direct     bool   // whether the patterns bypass the page cache
	buffered   *os.File
	unbuffered *os.File // opened for direct I/O; nil if that is not used
	release    func()
}

// create checks that there is space for the whole file, and makes an empty one.
func create(p Plan) (*file, error) {
	system, err := checkSpace(p.Dir, p.Size)
	if err != nil {
		return nil, err
	}
	made, err := os.CreateTemp(p.Dir, "tare-disk-*")
	if err != nil {
		return nil, fmt.Errorf("dir: %w", err)
	}
	f := &file{path: made.Name(), system: system, buffered: made, release: removeOnSignal(made.Name())}
	if err := f.openDirect(p); err != nil {
		f.remove()
		return nil, err
	}
	return f, nil
}

// removeOnSignal removes a file on SIGTERM or SIGINT and ends the process, until release is called.
func removeOnSignal(path string) (release func()) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		if s, ok := <-told; ok {
			_ = os.Remove(path) // an error has nowhere to go
			os.Exit(128 + int(s.(syscall.Signal)))
		}
	}()
	return func() { signal.Stop(told); close(told) }
}

func (f *file) remove() {
	_ = os.Remove(f.path) // its directory is removed next
	_ = f.buffered.Close()
	if f.unbuffered != nil {
		_ = f.unbuffered.Close()
	}
	f.release()
}

// fd returns the descriptor for the patterns.
func (f *file) fd() int {
	if f.direct {
		return int(f.unbuffered.Fd())
	}
	return int(f.buffered.Fd())
}

// openDirect opens the file for direct I/O, if that is wanted and possible.
func (f *file) openDirect(p Plan) error {
	if p.Direct == No {
		return nil
	}
	err := f.tryDirect(p)
	if f.direct = err == nil; f.direct || p.Direct == Auto {
		return nil
	}
	return fmt.Errorf("direct=yes: direct I/O refused by %s: %w; use direct=auto or no, or another dir", f.system, err)
}

var errMemory = errors.New("its files are in memory, not on a disk")

// tryDirect writes one block of each length. It refuses a tmpfs, which newer kernels open
// for direct I/O though it stays in memory.
func (f *file) tryDirect(p Plan) (err error) {
	if InMemory(f.system) {
		return errMemory
	}
	if f.unbuffered, err = os.OpenFile(f.path, os.O_RDWR|syscall.O_DIRECT, 0); err != nil {
		return err
	}
	for _, one := range p.Patterns {
		if err := f.tryBlock(p.BlockOf(one)); err != nil {
			return err
		}
	}
	return f.tryBlock(p.Block)
}

func (f *file) tryBlock(block int) error {
	slots, free, err := newSlots(1, block)
	if err != nil {
		return err
	}
	defer free()
	_, err = f.unbuffered.WriteAt(slots[0], 0)
	return err
}

// fill writes the whole file, so that it has no holes, and forces it to the disk.
func (f *file) fill(size int64) error {
	fd := int(f.buffered.Fd())
	// Not every file system supports it.
	if err := syscall.Fallocate(fd, 0, 0, size); err != nil && !errors.Is(err, syscall.EOPNOTSUPP) &&
		!errors.Is(err, syscall.ENOSYS) {
		return fileError(f.path, fmt.Errorf("reserve %d bytes: %w", size, err))
	}
	slots, free, err := newSlots(1, fillBlock)
	if err != nil {
		return err
	}
	defer free()
	for at := int64(0); at < size; at += fillBlock {
		stamp(slots[0])
		if _, err := f.buffered.WriteAt(slots[0][:min(fillBlock, size-at)], at); err != nil {
			return err
		}
	}
	return f.buffered.Sync()
}

const fillBlock = 1 << 20

// fileError adds the test file to an error.
func fileError(path string, err error) error { return fmt.Errorf("test file %s: %w", path, err) }

// settle writes all data back to the disk and drops it from the page cache, so that
// patterns do not affect one another.
func (f *file) settle() error {
	if err := syscall.Fdatasync(int(f.buffered.Fd())); err != nil {
		return fileError(f.path, err)
	}
	const dontNeed = 4 // POSIX_FADV_DONTNEED
	if _, _, errno := syscall.Syscall6(syscall.SYS_FADVISE64, f.buffered.Fd(), 0, 0, dontNeed, 0, 0); errno != 0 {
		return fileError(f.path, fmt.Errorf("drop it from the page cache: %w", errno))
	}
	return nil
}

// syncs writes one block after the other through the page cache, and forces each to the
// disk. A slow disk gets up to ten times the time, until there are enough values for a
// median: fsync has no rate that this could change.
func (f *file) syncs(p Plan, t *tally) error {
	slots, free, err := newSlots(1, p.Block)
	if err != nil {
		return err
	}
	defer free()
	w := work{fd: int(f.buffered.Fd()), write: true, size: p.Size, slots: slots}
	next := w.cursor()
	t.start()
	for now := time.Duration(0); !t.isOver(now) || (t.latency.Count() < 2*minTail && now < 10*t.to); {
		if err := w.put(next.next()); err != nil {
			return err
		}
		begun := t.now()
		if _, _, errno := syscall.RawSyscall(syscall.SYS_FDATASYNC, uintptr(w.fd), 0, 0); errno != 0 {
			return fmt.Errorf("fdatasync: %w", errno)
		}
		if now = t.now(); now >= t.from {
			t.latency.Add(now - begun)
		}
	}
	return nil
}

// put writes the first slot.
func (w *work) put(offset int64) error {
	b := w.slots[0]
	stamp(b)
	n, _, errno := syscall.RawSyscall6(syscall.SYS_PWRITE64, uintptr(w.fd), uintptr(unsafe.Pointer(&b[0])),
		uintptr(len(b)), uintptr(offset), 0, 0)
	result := int(n)
	if errno != 0 {
		result = -int(errno)
	}
	return completion{0, result}.check(len(b))
}
