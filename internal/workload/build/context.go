package build

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Bounds of what tare reads of the user's.
const (
	maxFile    = 1 << 20 // bytes of a build file
	maxContext = 4 << 30 // bytes of a context
	maxEntries = 200_000 // files and directories of a context
)

// ignoreSuffix ends the name of a file of patterns for one build file.
const ignoreSuffix = ".dockerignore"

// write fills a directory with files of random bytes.
func (c content) write(ctx context.Context, dir string) error {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // never fails, since Go 1.24
	random := rand.NewChaCha8(seed)
	for i := range c.files {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// Whatever does not divide evenly is in the first files.
		size := c.size / int64(c.files)
		if int64(i) < c.size%int64(c.files) {
			size++
		}
		if err := writeRandom(filepath.Join(dir, fmt.Sprintf("file-%05d", i)), random, size); err != nil {
			return fmt.Errorf("context: %w", err)
		}
	}
	return nil
}

func writeRandom(path string, random io.Reader, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.LimitReader(random, size))
	return errors.Join(err, f.Close())
}

// fileIn is the build file of a context, by the names that builders look for.
func fileIn(dir string) string {
	file := filepath.Join(dir, "Dockerfile")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		other := filepath.Join(dir, "Containerfile")
		if _, err := os.Stat(other); err == nil {
			return other
		}
	}
	return file
}

// readFile reads a build file.
func readFile(path string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is longer than %d MiB", path, maxFile>>20)
	}
	return text, err
}

// openRegular opens a file, and nothing that could block.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// copyTree copies a context: its files with their modes and times, directories and symbolic links.
func copyTree(ctx context.Context, to, from string) error {
	entries, left := 0, int64(maxContext)
	own, err := os.Stat(to)
	if err != nil {
		return err
	}
	named := from
	if from, err = filepath.EvalSymlinks(named); err != nil { // it may be a link, which no walk follows
		return fmt.Errorf("context %s: %w", named, err)
	}
	err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if entries++; err == nil && entries > maxEntries {
			err = fmt.Errorf("it has more than %d files", maxEntries)
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if info, err := d.Info(); err == nil && os.SameFile(info, own) {
			return errors.New("the directory in which tare keeps the run is in it: choose another with --state")
		}
		left, err = copyEntry(filepath.Join(to, name), path, d, left)
		return err
	})
	if err != nil {
		return fmt.Errorf("context %s: %w", named, err)
	}
	return nil
}

// copyEntry copies one entry of a directory, of at most so many bytes, and returns how many are left.
func copyEntry(to, from string, d fs.DirEntry, left int64) (int64, error) {
	info, err := d.Info()
	if err != nil {
		return left, err
	}
	switch {
	case d.IsDir():
		mode := info.Mode().Perm() | 0o700
		return left, errors.Join(os.MkdirAll(to, mode), os.Chmod(to, mode)) // whatever the umask
	case d.Type() == fs.ModeSymlink:
		target, err := os.Readlink(from)
		if err != nil {
			return left, err
		}
		return left, os.Symlink(target, to)
	case !d.Type().IsRegular():
		return left, fmt.Errorf("%s is neither a file nor a directory nor a link: move it elsewhere", from)
	}
	n, err := copyFile(to, from, info, left)
	return left - n, err
}

func copyFile(to, from string, info fs.FileInfo, left int64) (n int64, err error) {
	f, err := openRegular(from)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // it was only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return 0, err
	}
	n, err = io.Copy(out, io.LimitReader(f, left+1))
	if err == nil && n > left {
		err = fmt.Errorf("it has more than %d GiB", maxContext>>30)
	}
	if err = errors.Join(err, out.Chmod(info.Mode().Perm()), out.Close()); err == nil {
		err = os.Chtimes(to, info.ModTime(), info.ModTime())
	}
	return n, err
}

// touchTree makes every file of a context a second younger: BuildKit sends files again whose time is
// another one, and leaves out those that it has already. Which file is older than another stays.
func touchTree(ctx context.Context, dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		then := info.ModTime().Add(time.Second)
		return os.Chtimes(path, then, then)
	})
}
