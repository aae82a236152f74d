package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/supervise"
)

// A program is the server of an image.
type program struct {
	path   string   // inside
	digest string   // of the file, "sha256:…"
	image  string   // digest of the image
	host   bool     // it is a program of this host
	entry  []string // program and arguments of the image's entry point; nil = it is not used
}

// bin is the directory of the server's programs.
func (p program) bin() string { return path.Dir(p.path) }

// programOf finds the server in the image of a cell.
func (w workload) programOf(ctx context.Context, t bench.Task) (program, error) {
	ref := imageOf(t)
	img, err := w.images(t.Dir).ResolveIn(ctx, t.Engine, ref)
	if err != nil {
		return program{}, err
	}
	p := program{image: img.Digest()}
	file := ""
	if set := img.Packed(); set != nil {
		p.path, p.host, file = set.Program, true, set.Program
	} else if p.path, file, err = findServer(ctx, img); err != nil {
		return program{}, err
	}
	if path.Base(p.path) != "postgres" {
		return program{}, fmt.Errorf("%w: image %s runs %s, which is not postgres", bench.ErrUnsupported, ref, p.path)
	}
	switch user, _, _ := strings.Cut(img.User(), ":"); {
	case t.Params["entry"] == entryImage:
		if p.entry, err = entryPoint(ctx, img); err != nil {
			return program{}, err
		}
	case !slices.Contains([]string{"", "0", "root"}, user):
		return program{}, fmt.Errorf("%w: image %s has user %.50q, and tare's launcher has to begin as root: use entry=image",
			bench.ErrUnsupported, ref, img.User())
	}
	p.digest, err = supervise.FileDigest(file)
	return p, err
}

// serverDirs are where images have PostgreSQL if it is not in their PATH.
func serverDirs() []string {
	return []string{"/usr/local/bin", "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin", "/usr/bin"}
}

// findServer returns the server's path in an image, and its file on this host. A link that leads out of the image leads
// nowhere.
func findServer(ctx context.Context, img *image.Image) (inside, file string, err error) {
	dir, err := img.Rootfs(ctx)
	if err != nil {
		return "", "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", "", fmt.Errorf("image %s: %w", img.Ref(), err)
	}
	defer func() { _ = root.Close() }() // nothing was written
	var candidates []string
	for _, dir := range searchPath(img) {
		candidates = append(candidates, path.Join(dir, "postgres"))
	}
	for _, pattern := range serverDirs() {
		found, err := fs.Glob(root.FS(), path.Join(pattern, "postgres")[1:])
		if err != nil {
			return "", "", err
		}
		for _, name := range slices.Backward(found) { // the newest version, if there are several
			candidates = append(candidates, "/"+name)
		}
	}
	for _, name := range candidates {
		if info, err := root.Lstat(name[1:]); err == nil && info.Mode().IsRegular() {
			return name, filepath.Join(dir, name), nil
		}
	}
	return "", "", fmt.Errorf("%w: image %s has no program postgres", bench.ErrUnsupported, img.Ref())
}
