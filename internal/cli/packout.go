package cli

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
)

// The kinds of places that an image can be written to.
type targetKind int

const (
	toNowhere targetKind = iota
	toArchive
	toLayout
	toStdout
	toDevice
)

// A target is where an image is written to.
type target struct {
	kind  targetKind
	path  string
	force bool
	work  string // a directory beside it, on the same file system
}

// parseTarget reads --output. What is there is not replaced, unless the user
// wants it.
func parseTarget(text string, force bool) (*target, error) {
	t := &target{kind: toArchive, path: text, force: force}
	scheme, rest, _ := strings.Cut(text, ":")
	switch {
	case text == "":
		t.kind = toNowhere
		return t, nil
	case text == "-":
		t.kind = toStdout
		return t, nil
	case scheme == "oci":
		t.kind, t.path = toLayout, rest
	case scheme == "tar":
		t.path = rest
	case strings.Contains(text, "://"):
		return nil, &usageError{fmt.Errorf("--output %q: images are not pushed to registries", text), "write a file, or --load it into an engine that can push it"}
	}
	if t.path == "" {
		return nil, &usageError{fmt.Errorf("--output %q names no file", text), "write FILE, tar:FILE or oci:DIR"}
	}
	t.path = filepath.Clean(t.path)
	if t.kind == toArchive && isDevice(t.path) {
		t.kind = toDevice
		return t, nil
	}
	return t, t.check()
}

// check looks at what is there, before anything is packed.
func (t *target) check() error {
	info, err := os.Stat(t.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_, err := os.Stat(filepath.Dir(t.path))
		if errors.Is(err, fs.ErrNotExist) {
			return &usageError{fmt.Errorf("--output: %w", err), "make the directory first, or choose another name"}
		}
		return nil
	case err != nil:
		return notWritable(err)
	case t.kind == toLayout && info.IsDir():
		return t.checkEmpty()
	case info.IsDir():
		return &usageError{fmt.Errorf("--output: %s is a directory", t.path), "name a file in it, or write oci:DIR for an OCI layout"}
	case t.kind == toLayout || !t.force:
		return t.there()
	}
	return nil
}

func (t *target) checkEmpty() error {
	all, err := os.ReadDir(t.path)
	if err == nil && len(all) > 0 {
		return t.there()
	}
	return err
}

func (t *target) there() error {
	hint := "choose another name, remove it first, or replace it with --force"
	if t.kind == toLayout {
		hint = "choose another name, or remove it first: a directory is not replaced"
	}
	return &usageError{fmt.Errorf("--output: %s is there already", t.path), hint}
}

// workshop makes a directory for what is made on the way: where the image goes,
// or else among temporary files.
func (t *target) workshop() (dir string, remove func(), err error) {
	parent := os.TempDir()
	if t.kind == toArchive || t.kind == toLayout {
		parent = filepath.Dir(t.path)
	}
	var done func() error
	if t.work, done, err = app.WorkDir(parent); err != nil {
		return "", nil, notWritable(err)
	}
	return t.work, func() { _ = done() }, nil // at worst a leftover, which the next one removes
}

// notWritable is the error for a place that cannot be written to.
func notWritable(err error) error {
	err = fmt.Errorf("--output: %w", err)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return &hintError{err, "choose a place that you may write to"}
	}
	return err
}

// reference is how the image is named afterwards; empty where it is in no file.
func (t *target) reference() string {
	switch t.kind {
	case toArchive:
		return "tar:" + t.path
	case toLayout:
		return "oci:" + t.path
	default:
		return ""
	}
}

// write writes the image whole, or not at all.
func (t *target) write(ctx context.Context, a *invocation, img *image.Image, tag string) error {
	switch t.kind {
	case toStdout:
		if _, tty := terminal(a.stdout.Writer); tty {
			return &usageError{errors.New("--output -: stdout is a terminal"), "write into a pipe or a file"}
		}
		return img.WriteArchive(image.Until(ctx, a.stdout), tag)
	case toDevice:
		return t.writeFile(ctx, t.path, os.O_WRONLY, img, tag)
	case toArchive:
		file := filepath.Join(t.work, "image.tar")
		if err := t.writeFile(ctx, file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, img, tag); err != nil {
			return err
		}
		return t.place(file)
	case toLayout:
		dir := filepath.Join(t.work, "layout")
		if err := img.WriteLayout(dir, tag); err != nil {
			return &outputError{fmt.Errorf("--output: %w", err)}
		}
		return t.place(dir)
	}
	return nil
}

func (t *target) writeFile(ctx context.Context, name string, flags int, img *image.Image, tag string) error {
	f, err := os.OpenFile(name, flags, 0o644)
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	err = errors.Join(t.writeArchive(image.Until(ctx, f), img, tag), f.Close())
	if err != nil && ctx.Err() == nil {
		err = &outputError{fmt.Errorf("--output: %w", err)}
	}
	return err
}

// writeArchive writes the archive, with gzip if the file's name says so. Its header
// has neither name nor time, so that the same image gives the same bytes.
func (t *target) writeArchive(w io.Writer, img *image.Image, tag string) error {
	if !image.GzipByName(t.path) {
		return img.WriteArchive(w, tag)
	}
	packed := gzip.NewWriter(w)
	return errors.Join(img.WriteArchive(packed, tag), packed.Close())
}

// place moves what was written to where it belongs. What has come there
// meanwhile stays, unless the user wants it replaced.
func (t *target) place(made string) error {
	if t.force || t.kind == toLayout { // which the kernel lets replace an empty directory alone
		return t.placed(unix.Rename(made, t.path))
	}
	err := unix.Renameat2(unix.AT_FDCWD, made, unix.AT_FDCWD, t.path, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // not every file system can
		if err = t.check(); err == nil {
			err = os.Rename(made, t.path)
		}
	}
	return t.placed(err)
}

func (t *target) placed(err error) error {
	switch {
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.ENOTDIR):
		return t.there()
	case err != nil:
		return &outputError{fmt.Errorf("--output: %s: %w", t.path, err)}
	}
	return nil
}

// loadInto loads the image into engines, and returns their names. One that
// cannot take it does not keep the others from it.
func (a *invocation) loadInto(ctx context.Context, engines []app.Instance, img *image.Image, tag string) (loaded []string, err error) {
	for _, inst := range engines {
		if loadErr := a.loadOne(ctx, inst, img, tag); loadErr != nil {
			err = errors.Join(err, fmt.Errorf("--load %s: %w", inst.Name, loadErr))
			continue
		}
		loaded = append(loaded, inst.Name)
	}
	return loaded, err
}

func (a *invocation) loadOne(ctx context.Context, inst app.Instance, img *image.Image, tag string) (err error) {
	dir, remove, err := app.WorkDir(os.TempDir()) // for the socket of an engine that has to be started
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	e, err := a.tare.Site("pack", dir).Engine(inst)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, app.CloseEngines(ctx, map[string]bench.Engine{inst.Name: e})) }()
	l, ok := bench.As[bench.ImageLoader](e)
	if !ok {
		return fmt.Errorf("%w: %s has no store of images that users name: write a file with -o, and use it with --image tar:FILE", bench.ErrUnsupported, inst.Name)
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(img.WriteArchive(w, tag)) }()
	defer func() { _ = r.Close() }() // ends the writer; it was only read
	return l.LoadImage(ctx, r, tag, img.Digest())
}
