// Package inspect describes the content of images, and their differences. It runs nothing in them,
// and follows links only inside their root file systems.
package inspect

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tare-bench/tare/internal/image"
)

// A Report describes one image.
type Report struct {
	Ref      string    `json:"ref"`
	Digest   string    `json:"digest"`           // of the configuration: the image's ID
	Pinned   string    `json:"pinned,omitempty"` // see image.Image.Pinned
	Platform string    `json:"platform"`         // such as "linux/amd64"
	Created  time.Time `json:"created,omitzero"` // as the image states

	Layers     []Layer `json:"layers"`
	Compressed int64   `json:"compressed_bytes"` // of all layers
	Unpacked   int64   `json:"unpacked_bytes"`   // of the files that a container sees; hard links count once
	Files      int     `json:"files"`            // names of files that a container sees
	Links      int     `json:"symlinks"`
	Dirs       int     `json:"directories"`

	System string   `json:"system,omitempty"` // the distribution, from /etc/os-release
	Libc   []Libc   `json:"libc"`             // empty: programs are static, or do not run
	Notes  []string `json:"notes,omitempty"`  // what was left out, and why

	Config Config `json:"config"`
}

// A Layer describes one layer.
type Layer struct {
	DiffID      string            `json:"diff_id"`
	Stored      int64             `json:"stored_bytes"`
	Compression image.Compression `json:"compression"`
	// Compressed is the size in a registry: Stored, or for a layer that is stored uncompressed its
	// size with gzip.
	Compressed int64 `json:"compressed_bytes"`
	Unpacked   int64 `json:"unpacked_bytes"` // of its files
	Files      int   `json:"files"`
	Hidden     int   `json:"whiteouts"`
}

// A Libc is a C library that programs in the image can be linked to.
type Libc struct {
	Name    string `json:"name"`              // "glibc" or "musl"
	Version string `json:"version,omitempty"` // empty if unknown
	Path    string `json:"path"`
}

// A Config is the image's configuration for its containers.
type Config struct {
	User       string   `json:"user,omitempty"`
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
	Dir        string   `json:"dir,omitempty"`
	Env        []string `json:"env,omitempty"`
	Ports      []string `json:"ports,omitempty"`
	Volumes    []string `json:"volumes,omitempty"`
	StopSignal string   `json:"stop_signal,omitempty"`
	Health     []string `json:"healthcheck,omitempty"`
	Labels     []string `json:"labels,omitempty"` // KEY=VALUE
}

// Inspect reads a whole image, and unpacks it. What Image.Rootfs refuses is an error here too.
func Inspect(ctx context.Context, img *image.Image) (*Report, error) {
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	r := &Report{
		Ref: img.Ref(), Digest: img.Digest(), Pinned: img.Pinned(),
		Platform: path.Join(file.OS, file.Architecture, file.Variant), Created: file.Created.Time,
		Libc: []Libc{}, Config: configOf(file.Config),
	}
	dir, err := img.Rootfs(ctx) // it verifies the layers and their limits
	if err != nil {
		return nil, err
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	for _, l := range layers {
		r.Layers = append(r.Layers,
			Layer{DiffID: l.DiffID, Stored: l.Stored, Compression: l.Compression, Compressed: l.Stored})
	}
	n := 0
	err = img.EachLayer(ctx, func(archive io.Reader) error {
		l := &r.Layers[n]
		n++
		err := l.read(archive)
		r.Compressed += l.Compressed
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, r.rootfs(dir)
}

// read counts what a layer has. It learns the compressed size of one that is stored uncompressed:
// with gzip's default level, which engines use to push.
func (l *Layer) read(archive io.Reader) error {
	var size counter
	zip := gzip.NewWriter(&size)
	all := archive
	if l.Compression == image.Plain {
		all = io.TeeReader(archive, zip)
	}
	for entries := tar.NewReader(all); ; {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		l.count(h)
	}
	if _, err := io.Copy(io.Discard, all); err != nil || l.Compression != image.Plain {
		return err
	}
	err := zip.Close()
	l.Compressed = int64(size)
	return err
}

// count counts an entry of the layer. A white-out says what is hidden of the layers below; longer
// names of that form are internal data of an old storage driver.
func (l *Layer) count(h *tar.Header) {
	base := path.Base(h.Name)
	switch hidden, ok := strings.CutPrefix(base, ".wh."); {
	case ok && (hidden == ".wh..opq" || !strings.HasPrefix(hidden, ".wh.")):
		l.Hidden++
	case !ok && (h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeGNUSparse):
		l.Files++
		l.Unpacked += h.Size
	}
}

// A counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// rootfs describes the root file system in a directory: what a container sees.
func (r *Report) rootfs(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // only a directory's descriptor
	seen := map[uint64]bool{}
	r.Dirs = -1 // the root is none of the image's
	err = fs.WalkDir(root.FS(), ".", func(_ string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			r.Dirs++
			return nil
		case e.Type() == fs.ModeSymlink:
			r.Links++
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		r.Files++
		if n := inode(info); !seen[n] {
			seen[n] = true
			r.Unpacked += info.Size()
		}
		return nil
	})
	if err != nil {
		return err
	}
	t := tree{root}
	r.System = t.system()
	r.Libc = append(r.Libc, r.libraries(t)...)
	return nil
}

func configOf(c v1.Config) Config {
	out := Config{
		User: c.User, Entrypoint: c.Entrypoint, Cmd: c.Cmd, Dir: c.WorkingDir, Env: c.Env,
		Ports: sorted(c.ExposedPorts), Volumes: sorted(c.Volumes), StopSignal: c.StopSignal,
	}
	if c.Healthcheck != nil {
		out.Health = c.Healthcheck.Test
	}
	for key, value := range c.Labels {
		out.Labels = append(out.Labels, key+"="+value)
	}
	slices.Sort(out.Labels)
	return out
}

func sorted(set map[string]struct{}) []string {
	var all []string
	for key := range set {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}
