// Package inspect describes the content of images, and their differences. It reads the layers
// without unpacking them to disk. A tree in memory represents the root file system; it applies
// white-outs and follows links only inside the tree.
package inspect

import (
	"context"
	"fmt"
	"io"
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

// Inspect reads a whole image. Exceeding the image's limits is an error, as for containers.
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
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	for _, l := range layers {
		r.Layers = append(r.Layers,
			Layer{DiffID: l.DiffID, Stored: l.Stored, Compression: l.Compression, Compressed: l.Stored})
	}
	t := newTree()
	if err := img.Walk(ctx, func(e image.Entry, content io.Reader) error { return r.entry(t, e, content) }); err != nil {
		return nil, err
	}
	if err := r.compress(ctx, img); err != nil {
		return nil, err
	}
	if err := r.count("/", t.root.inode, &counters{seen: map[*inode]bool{}}); err != nil {
		return nil, err
	}
	r.System = systemOf(t)
	r.Libc = append(r.Libc, r.libraries(t)...)
	return r, nil
}

// entry counts an entry of a layer.
func (r *Report) entry(t *tree, e image.Entry, content io.Reader) error {
	l := &r.Layers[e.Layer]
	switch e.Kind {
	case image.File:
		l.Files++
		l.Unpacked += e.Header.Size
	case image.Whiteout, image.Opaque:
		l.Hidden++
	}
	return t.apply(e, content)
}

// maxPaths limits the memory for paths, in bytes, and the time to make them. Through links a layer
// can make paths that are longer than any name in it.
const maxPaths = 256 << 20

// counters is the state of count.
type counters struct {
	seen  map[*inode]bool
	paths int // bytes of all paths
}

// count adds up what a container sees in a directory.
func (r *Report) count(at string, dir *inode, c *counters) error {
	for name, n := range dir.children {
		name = path.Join(at, name)
		if c.paths += len(name); c.paths > maxPaths {
			return fmt.Errorf("image %s: %w: all paths together have more than %d bytes", r.Ref, image.ErrHostile,
				maxPaths)
		}
		switch n.kind {
		case image.Directory:
			r.Dirs++
			if err := r.count(name, n.inode, c); err != nil {
				return err
			}
		case image.Symlink:
			r.Links++
		default:
			r.Files++
			if !c.seen[n.inode] {
				r.Unpacked += n.size
			}
			c.seen[n.inode] = true
		}
	}
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

// systemOf is the distribution's own name.
func systemOf(t *tree) string {
	for _, file := range []string{"etc/os-release", "usr/lib/os-release"} {
		text, ok := t.content(file)
		if !ok {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
				return fmt.Sprintf("%.100s", strings.Trim(name, `"'`))
			}
		}
	}
	return ""
}
