package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// copyData makes the target, with a copy of the template in it. The copy is written to the disk.
func (l *Launch) copyData(done *Prepared) error {
	if l.Target == "" {
		done.Copied, done.Synced = done.Began, done.Began
		return nil
	}
	uid, gid, err := l.user()
	if err != nil {
		return err
	}
	c := copier{uid: uid, gid: gid, chown: os.Geteuid() == 0, done: done, buf: make([]byte, 1<<20)}
	if err := c.dir(l.Template, l.Target); err != nil {
		return err
	}
	done.Copied = monotonic()
	if err := syncFS(l.Target); err != nil {
		return fmt.Errorf("syncfs: %w", err)
	}
	done.Synced = monotonic()
	if !l.Cold {
		return nil
	}
	return dropCache(l.Target)
}

// A copier copies files with plain writes of all their bytes: no holes, no shared extents and nothing
// allocated ahead. A later write and sync then costs what it costs in a file that has been in
// use, in every file system.
type copier struct {
	uid, gid int
	chown    bool
	done     *Prepared
	buf      []byte
}

// dir copies a directory, which must not exist in the new place; from = "" is an empty one.
func (c *copier) dir(from, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	if err := c.own(to, 0o700); err != nil || from == "" {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		from, to := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		switch e.Type() {
		case fs.ModeDir:
			err = c.dir(from, to)
		case 0:
			err = c.file(from, to)
		default:
			err = fmt.Errorf("%s is neither a file nor a directory", from)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) file(from, to string) (err error) {
	in, err := os.OpenFile(from, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := c.bytes(out, in)
	c.done.Bytes += n
	c.done.Copies++
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if err := c.own(to, 0o600); err != nil {
		return err
	}
	// The next cell must find as much in the page cache as this one.
	return unix.Fadvise(int(in.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// bytes copies with read and write: io.Copy would let the kernel share extents.
func (c *copier) bytes(out, in *os.File) (n int64, err error) {
	for {
		read, err := in.Read(c.buf)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		wrote, err := out.Write(c.buf[:read])
		n += int64(wrote)
		if err != nil {
			return n, err
		}
	}
}

// own gives a file to the program's user, with this mode whatever the umask.
func (c *copier) own(name string, mode fs.FileMode) error {
	if c.chown {
		if err := os.Chown(name, c.uid, c.gid); err != nil {
			return err
		}
	}
	return os.Chmod(name, mode)
}

// syncFS writes the file system of a directory to its disk.
func syncFS(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}

// dropCache drops the pages of the files below a directory, which have been written to the disk.
func dropCache(dir string) error {
	return filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
	})
}
