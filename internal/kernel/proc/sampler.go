package proc

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A Sampler reads kernel files repeatedly. It is for one goroutine at a time.
type Sampler struct {
	open []openFile
	buf  []byte
}

// An openFile is a plain descriptor and not an os.File, which would be registered with Go's poller,
// and pressure files would wake that.
type openFile struct {
	fd    int
	parse parser
}

const (
	// firstBuffer holds /proc/stat of a machine with 256 CPUs.
	firstBuffer = 64 << 10
	// maxBuffer limits what is read from one file, in bytes; the rest is ignored.
	maxBuffer = 4 << 20
)

// Open opens the files of the given sources below root: "/", or a captured
// tree. It skips files that do not exist or that this user may not read; it is an error only if
// none is left.
func Open(root string, sources ...Source) (*Sampler, error) {
	s := &Sampler{buf: make([]byte, firstBuffer)}
	var last error
	for _, source := range sources {
		for _, f := range source.files(root) {
			name := filepath.Join(root, f.name)
			fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				last = fmt.Errorf("open %s: %w", name, err)
				continue
			}
			s.open = append(s.open, openFile{fd, f.parse})
		}
	}
	if len(s.open) == 0 {
		return nil, last
	}
	return s, nil
}

// Read takes a snapshot. Values that cannot be read are NaN. Once its buffer has grown to the
// largest file, Read allocates nothing.
func (s *Sampler) Read(into *Snapshot) {
	into.clear()
	for _, f := range s.open {
		if text, err := s.read(f.fd); err == nil {
			f.parse(text, into)
		}
	}
}

// read reads a whole file from its beginning. The kernel returns some files one page at a time, so
// it reads until nothing more comes.
func (s *Sampler) read(fd int) ([]byte, error) {
	n := 0
	for {
		m, err := unix.Pread(fd, s.buf[n:], int64(n))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		n += m
		if m == 0 {
			return s.buf[:n], nil
		}
		if n == len(s.buf) {
			if n >= maxBuffer {
				return s.buf[:n], nil
			}
			s.buf = append(s.buf, make([]byte, n)...)
		}
	}
}

// Close closes the files.
func (s *Sampler) Close() error {
	var errs []error
	for _, f := range s.open {
		errs = append(errs, unix.Close(f.fd))
	}
	s.open = nil
	return errors.Join(errs...)
}
