package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/pack"
)

// packOptions are the flags of 'tare pack'.
type packOptions struct {
	output string
	load   []string
	tag    string
}

func (a *invocation) packCommand() *cobra.Command {
	var o packOptions
	cmd := &cobra.Command{
		Use:   "pack PROGRAM...",
		Short: "Make an image of installed programs and exactly what they need",
		Long: `Pack makes an image of programs that are installed here, with their dynamic
loader, their libraries and the files that they are known to open. It shows
what it took and why. The same files give the same image, to the byte.

PROGRAM is a name in PATH, /usr/sbin or /sbin, or an absolute path. A container
runs the first one. A recipe says what else a program needs and how to start it;
the recipe's name works as PROGRAM, too. There are recipes for
` + strings.Join(pack.RecipeNames(), ", ") + `.
--image host:PROGRAM packs by the same rules.`,
		Example: `  tare pack nginx -o nginx.tar
  tare pack postgres --load docker,podman`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.pack(cmd.Context(), o, args) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", "archive to write: a `file` for --image tar:FILE and 'docker load'")
	f.StringArrayVar(&o.load, "load", nil, "comma-separated `engines` to load the image into: "+
		strings.Join(app.ImageLoaders(), ", "))
	f.StringVar(&o.tag, "tag", "", "`name` of the image (default tare.local/PROGRAM:latest)")
	completeFlag(cmd, "load", completeList(app.ImageLoaders()...))
	return cmd
}

func (a *invocation) pack(ctx context.Context, o packOptions, programs []string) (err error) {
	if len(programs) == 0 {
		return &usageError{errors.New("no program to pack"), "name one that is installed here: tare pack nginx -o nginx.tar"}
	}
	for i, p := range programs {
		if strings.Contains(p, "/") {
			if programs[i], err = filepath.Abs(p); err != nil {
				return err
			}
		}
	}
	tag, err := o.name(programs[0])
	if err != nil {
		return err
	}
	engines, err := loadTargets(o.load)
	if err != nil {
		return err
	}
	if err := o.checkOutput(); err != nil {
		return err
	}

	work, remove, err := o.workDir()
	if err != nil {
		return err
	}
	defer func() { _ = remove() }() // at worst a leftover, which the next one removes
	img, err := image.NewLibrary(work).Pack(ctx, programs...)
	if err != nil {
		return packError(err, work)
	}
	if err := o.write(ctx, img, tag, work); err != nil {
		return err
	}
	result := describe(img, tag)
	if o.output != "" {
		result.Written = "tar:" + o.output
	}
	result.Loaded, err = a.loadInto(ctx, engines, img, tag)
	return errors.Join(a.printPacked(result), err)
}

// packError says that it is the output's file system that has no room, for the layer is
// made beside it, or that what was named cannot be packed.
func packError(err error, work string) error {
	if errors.Is(err, syscall.ENOSPC) {
		return &outputError{fmt.Errorf("make the layer in %s: %w", work, err)}
	}
	if errors.Is(err, bench.ErrUnsupported) {
		return usageErrorOf(err, "")
	}
	return err
}

// invalidRepositoryChars matches what the name of a repository may not contain.
var invalidRepositoryChars = regexp.MustCompile(`[^a-z0-9]+`)

// name is the full name of the image.
func (o packOptions) name(program string) (string, error) {
	tag := o.tag
	if tag == "" {
		tag = "tare.local/" + strings.Trim(invalidRepositoryChars.ReplaceAllString(strings.ToLower(path.Base(program)), "-"),
			"-")
	}
	full, err := image.FullName(tag)
	if err != nil {
		return "", &usageError{err, "write --tag NAME:TAG, such as tare.local/nginx:1"}
	}
	return full, nil
}

// checkOutput reads --output, and refuses a file that exists, before anything is packed.
func (o *packOptions) checkOutput() error {
	if o.output == "" {
		return nil
	}
	file := strings.TrimPrefix(o.output, "tar:")
	if file == "" || file == "-" || strings.HasPrefix(file, "oci:") || strings.Contains(file, "://") {
		return &usageError{
			fmt.Errorf("--output %q is not a file", o.output),
			"name a file for the archive, or use --load to put the image into an engine",
		}
	}
	o.output = filepath.Clean(file)
	_, err := os.Stat(o.output)
	switch {
	case err == nil:
		return &usageError{fmt.Errorf("--output: %s already exists", o.output), "choose another name, or remove it first"}
	case !errors.Is(err, fs.ErrNotExist):
		return notWritable(err)
	}
	if _, err := os.Stat(filepath.Dir(o.output)); errors.Is(err, fs.ErrNotExist) {
		return &usageError{fmt.Errorf("--output: %w", err), "create the directory first, or choose another name"}
	}
	return nil
}

// workDir makes a directory for temporary files: beside the output, if there is one.
func (o packOptions) workDir() (dir string, remove func() error, err error) {
	parent := os.TempDir()
	if o.output != "" {
		parent = filepath.Dir(o.output)
	}
	if dir, remove, err = app.WorkDir(parent); err != nil {
		return "", nil, notWritable(err)
	}
	return dir, remove, nil
}

// notWritable is the error for a place that cannot be written to.
func notWritable(err error) error {
	err = fmt.Errorf("--output: %w", err)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return &hintError{err, "choose a directory that you may write to"}
	}
	return err
}

// write writes the archive whole, or not at all. Work is on the same file system.
func (o packOptions) write(ctx context.Context, img *image.Image, tag, work string) error {
	if o.output == "" {
		return nil
	}
	made := filepath.Join(work, "image.tar")
	f, err := os.OpenFile(made, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	err = errors.Join(img.WriteDockerArchive(image.WriterContext(ctx, f), tag), f.Close())
	if err == nil {
		err = o.place(made)
	}
	var typed *usageError
	if err != nil && ctx.Err() == nil && !errors.As(err, &typed) {
		err = &outputError{fmt.Errorf("--output: %w", err)}
	}
	return err
}

// place moves the finished file to its name. It never overwrites a file of that name.
func (o packOptions) place(made string) error {
	err := unix.Renameat2(unix.AT_FDCWD, made, unix.AT_FDCWD, o.output, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EEXIST) {
		// Not every file system supports this; then a check before the rename must do.
		if err = o.checkOutput(); err == nil {
			err = os.Rename(made, o.output)
		}
	}
	return err
}

// loadTargets are the engines to load an image into.
func loadTargets(flags []string) ([]app.Instance, error) {
	chosen, declared, err := parseEngines(flags)
	if err != nil {
		return nil, err
	}
	all := app.WithDeclared(app.Builtin(), declared)
	var out []app.Instance
	for _, name := range chosen {
		i := slices.IndexFunc(all, func(e app.Instance) bool { return e.Name == name })
		if i < 0 {
			all = slices.DeleteFunc(all, func(e app.Instance) bool { return !slices.Contains(app.ImageLoaders(), e.Driver) })
			can := "engines that can load images: " + strings.Join(app.Names(all), ", ")
			return nil, &usageError{fmt.Errorf("--load: unknown engine %q", name), can}
		}
		out = append(out, all[i])
	}
	return out, nil
}

// loadInto loads the image into engines, and returns the names of those that have it. It
// goes on after an error.
func (a *invocation) loadInto(
	ctx context.Context, engines []app.Instance, img *image.Image, tag string,
) (loaded []string, err error) {
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
	e, err := a.tare.EngineSite("pack", dir).Engine(inst)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, app.CloseEngines(ctx, map[string]bench.Engine{inst.Name: e})) }()
	l, ok := bench.As[bench.ImageLoader](e)
	if !ok {
		return fmt.Errorf("%w: %s has no image store: write a file with -o, and use it with --image tar:FILE",
			bench.ErrUnsupported, inst.Name)
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(img.WriteDockerArchive(w, tag)) }()
	defer func() { _ = r.Close() }() // ends the writer; it was only read
	return l.LoadImage(ctx, r, tag, img.Digest())
}
