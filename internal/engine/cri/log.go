package cri

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/engine/stdstream"
)

// A logFollower copies the output of a container from the log that the server writes,
// while it is written.
type logFollower struct {
	name    string
	rotates bool // another file can get the name while the container runs: only finish ends the copying

	ended chan struct{} // closed when everything has been copied or copying has failed
	err   error         // why copying failed; valid once ended is closed

	mu       sync.Mutex
	file     *os.File
	watch    *os.File // inotify: the file has grown, or its writer has closed it
	stopped  bool     // by finish or close
	complete bool     // the log is, though nobody may have seen its writer close it
}

// follow begins to copy a log, and creates the file if it does not exist yet. The server appends
// what the container prints, and closes the file after the last line. A nil writer discards. If rotates is true,
// somebody may give the name to a new file now and then, and has the server write there.
func follow(name string, rotates bool, stdout, stderr io.Writer) (*logFollower, error) {
	t := &logFollower{name: name, rotates: rotates, ended: make(chan struct{})}
	flags := os.O_RDONLY | os.O_CREATE
	if rotates {
		flags = os.O_RDONLY // the file is somebody else's
	}
	var err error
	if t.file, t.watch, err = openLog(name, flags); err != nil {
		return nil, err
	}
	go func() {
		defer close(t.ended)
		t.err = t.run(&demultiplexer{stdout: &stdstream.Sink{To: stdout}, stderr: &stdstream.Sink{To: stderr}})
	}()
	return t, nil
}

func openLog(name string, flags int) (file, watch *os.File, err error) {
	file, err = os.OpenFile(name, flags, 0o600)
	if err != nil {
		return nil, nil, err
	}
	watch, err = watchFile(name)
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, watch, nil
}

func watchFile(name string) (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK) // so that close ends a read
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	watch := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, name, unix.IN_MODIFY|unix.IN_CLOSE_WRITE); err != nil {
		return nil, errors.Join(os.NewSyscallError("inotify_add_watch", err), watch.Close())
	}
	return watch, nil
}

// run copies until the log is complete, or close ends it.
func (t *logFollower) run(to *demultiplexer) error {
	text, events := make([]byte, 64<<10), make([]byte, 4<<10)
	for closed := false; ; {
		file, watch, complete := t.now()
		err := copyLog(to, file, text)
		if err == nil && (closed || complete) {
			var other bool
			if other, err = t.next(); other {
				closed = false
				continue
			}
		}
		if err == nil && (complete || closed && !t.rotates) {
			return to.end()
		}
		var n int
		if err == nil {
			n, err = watch.Read(events)
		}
		if errors.Is(err, os.ErrClosed) {
			if _, _, complete = t.now(); complete {
				continue
			}
			return nil
		}
		if err != nil {
			return err
		}
		closed = closedIn(events[:n])
	}
}

// now are the files that are read, and whether the log is complete.
func (t *logFollower) now() (file, watch *os.File, complete bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.file, t.watch, t.complete
}

// next goes on to the file that has the name now, if it is another one.
func (t *logFollower) next() (other bool, err error) {
	if !t.rotates {
		return false, nil
	}
	file, watch, err := openLog(t.name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // between two names, or removed
	}
	if err != nil {
		return false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if sameFile(file, t.file) || t.stopped && !t.complete {
		return false, errors.Join(file.Close(), watch.Close())
	}
	_, _ = t.file.Close(), t.watch.Close() // they were only read
	t.file, t.watch = file, watch
	if t.complete {
		_ = t.watch.Close() // as finish does
	}
	return true, nil
}

func sameFile(a, b *os.File) bool {
	x, err := a.Stat()
	y, too := b.Stat()
	return err == nil && too == nil && os.SameFile(x, y)
}

// copyLog copies what a file holds now.
func copyLog(to *demultiplexer, file *os.File, text []byte) error {
	for {
		n, err := file.Read(text)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := to.Write(text[:n]); err != nil {
			return err
		}
	}
}

// closedIn reports whether a writer has closed the file in one of the events.
func closedIn(events []byte) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		if binary.NativeEndian.Uint32(events[4:])&unix.IN_CLOSE_WRITE != 0 {
			return true
		}
		name := int(binary.NativeEndian.Uint32(events[12:]))
		events = events[min(len(events), unix.SizeofInotifyEvent+name):]
	}
	return false
}

// finish lets the copying end with what the log holds now, because it is complete.
func (t *logFollower) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped, t.complete = true, true
	_ = t.watch.Close() // it is only read, and may be closed
}

// close ends the copying, and returns when no writer is called any more.
func (t *logFollower) close() {
	t.mu.Lock()
	t.stopped, t.complete = true, false
	_, _ = t.watch.Close(), t.file.Close() // both are only read
	t.mu.Unlock()
	<-t.ended
}

// errFormat means that a log is not in CRI's format.
var errFormat = errors.New("not the log format of CRI")

// maxHeader limits the length of a line's header: a time, a stream, a tag.
const maxHeader = 128

// A demultiplexer splits a log in CRI's format into stdout and stderr. Its lines are
//
//	2006-01-02T15:04:05.999999999Z stdout F text
//
// with "stderr" for the other stream, and P for text that continues in the stream's next line. It
// never holds a whole line in memory.
type demultiplexer struct {
	stdout, stderr io.Writer

	header    [maxHeader]byte
	n         int       // bytes of the header so far
	spaces    int       // spaces among these bytes
	text      io.Writer // where the rest of the line goes; nil in a header
	endOfLine bool      // the newline belongs to the text
}

func (d *demultiplexer) Write(p []byte) (int, error) {
	size := len(p)
	for len(p) > 0 {
		used, err := d.readPart(p)
		if err != nil {
			return size - len(p), err
		}
		p = p[used:]
	}
	return size, nil
}

// readPart consumes the rest of a header, or the rest of a line.
func (d *demultiplexer) readPart(p []byte) (int, error) {
	if d.text == nil {
		return d.begin(p)
	}
	text, _, ends := bytes.Cut(p, []byte("\n"))
	if !ends {
		return d.text.Write(p)
	}
	used := len(text) + 1
	if d.endOfLine {
		text = p[:used]
	}
	_, err := d.text.Write(text)
	d.text = nil
	return used, err
}

// begin consumes bytes until the header's third space.
func (d *demultiplexer) begin(p []byte) (int, error) {
	for i, b := range p {
		if b == '\n' || d.n == maxHeader {
			return i, fmt.Errorf("a line begins with %q: %w", d.header[:d.n], errFormat)
		}
		d.header[d.n] = b
		d.n++
		if b != ' ' {
			continue
		}
		if d.spaces++; d.spaces == 3 {
			return i + 1, d.open()
		}
	}
	return len(p), nil
}

// open finds out which stream the line belongs to.
func (d *demultiplexer) open() error {
	fields := bytes.Split(d.header[:d.n], []byte(" "))
	tag, _, _ := bytes.Cut(fields[2], []byte(":")) // more tags may follow
	stream := map[string]io.Writer{"stdout": d.stdout, "stderr": d.stderr}[string(fields[1])]
	if stream == nil || string(tag) != "F" && string(tag) != "P" {
		return fmt.Errorf("a line begins with %q: %w", d.header[:d.n], errFormat)
	}
	d.text, d.endOfLine, d.n, d.spaces = stream, string(tag) == "F", 0, 0
	return nil
}

// end returns an error unless the log ended at the end of a line.
func (d *demultiplexer) end() error {
	if d.text != nil || d.n > 0 {
		return fmt.Errorf("the log ends within a line: %w", errFormat)
	}
	return nil
}
