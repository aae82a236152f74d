// Package image reads container images from local files and registries and turns them into what
// engines need: a root file system or an archive to load. It also makes tare's own image, whose
// only program is the agent, from the binary that is embedded in tare.
//
// Images come from anywhere. So everything that is read from one is limited, every digest is
// verified, and nothing is written outside the directory to which the image is unpacked. See Limits
// and Image.Rootfs.
package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image/pack"
)

// An Image is an image for this machine's architecture. Its methods may be
// called concurrently.
type Image struct {
	lib    *Library
	ref    string
	source source
	raw    []byte // the configuration, in the bytes that the digest covers
	digest v1.Hash
	config v1.Config
	layers []layer   // bottom first
	packed *pack.Set // see Packed; nil for other images
	pinned string    // see Pinned
}

// newImage checks a configuration and joins it with its layers' files, bottom first.
func newImage(src source, raw []byte, files []layer) (*Image, error) {
	config, err := v1.ParseConfigFile(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("the image's configuration: %w", err)
	}
	if err := checkPlatform(config.OS, config.Architecture); err != nil {
		return nil, err
	}
	ids := config.RootFS.DiffIDs
	if len(ids) != len(files) {
		return nil, fmt.Errorf("the image's configuration lists %d layers, but the image has %d", len(ids), len(files))
	}
	for i := range files {
		files[i].source, files[i].diffID = src, ids[i]
	}
	digest, _, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return &Image{source: src, raw: raw, digest: digest, config: config.Config, layers: files}, nil
}

// Ref is the reference by which the image was found.
func (i *Image) Ref() string { return i.ref }

// Digest identifies the image: the digest of its configuration, "sha256:…".
// Engines call it the image's ID. It does not depend on how the image is stored.
func (i *Image) Digest() string { return i.digest.String() }

// Env is the image's environment, KEY=VALUE.
func (i *Image) Env() []string { return slices.Clone(i.config.Env) }

// WorkingDir is the image's working directory; "/" if the image sets none.
func (i *Image) WorkingDir() string {
	if i.config.WorkingDir == "" {
		return "/"
	}
	return i.config.WorkingDir
}

// User is the user that the image asks to run as, as the image writes it, such as "1000:1000" or
// "postgres"; empty for root.
func (i *Image) User() string { return i.config.User }

// Argv returns the program and arguments of a container of spec: spec's own,
// or else the image's entry point and command.
func (i *Image) Argv(spec bench.Spec) ([]string, error) {
	if len(spec.Argv) > 0 {
		return slices.Clone(spec.Argv), nil
	}
	argv := slices.Concat(i.config.Entrypoint, i.config.Cmd)
	if len(argv) == 0 {
		return nil, fmt.Errorf("image %s has neither entry point nor command: name the command to run", i.ref)
	}
	return argv, nil
}

// WriteDockerArchive writes the image in the format of "docker save", under
// the name tag if that is not empty. Layers are written as they are stored, and verified if the
// source has a digest of the stored form; otherwise the program that loads the archive verifies
// them. zstd layers are written uncompressed, because not every engine reads zstd.
func (i *Image) WriteDockerArchive(w io.Writer, tag string) error {
	if err := i.writeArchive(w, tag); err != nil {
		return fmt.Errorf("image %s: write archive: %w", i.ref, err)
	}
	return nil
}

func (i *Image) writeArchive(w io.Writer, tag string) error {
	tw := tar.NewWriter(w)
	m := tarball.Descriptor{Config: i.digest.Hex + ".json"}
	if tag != "" {
		m.RepoTags = []string{tag}
	}
	if err := writeFile(tw, m.Config, bytes.NewReader(i.raw), int64(len(i.raw))); err != nil {
		return err
	}
	for _, l := range i.layers {
		name := l.diffID.Hex + ".tar"
		if !slices.Contains(m.Layers, name) {
			if err := l.writeTo(tw, name, i.lib.limits.Bytes); err != nil {
				return err
			}
		}
		m.Layers = append(m.Layers, name)
	}
	manifest, err := json.Marshal(tarball.Manifest{m})
	if err != nil {
		return err
	}
	if err := writeFile(tw, "manifest.json", bytes.NewReader(manifest), int64(len(manifest))); err != nil {
		return err
	}
	return tw.Close()
}

// writeFile adds a regular file to an archive.
func writeFile(tw *tar.Writer, name string, r io.Reader, size int64) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(tw, r)
	return err
}

// Rootfs returns a directory with the image's files, unpacked below the library's directory. All
// containers of the image share this directory, so nobody may write to it.
//
// If tare runs as root, each file has the owner and mode of the image, including setuid bits.
// Otherwise everything belongs to the user, without setuid bits, and the user can enter and write
// directories, to be able to remove them. Modification times of files are kept, and for root also
// file capabilities; other extended attributes are not. Rootfs refuses an image that contains a
// device, a FIFO or a socket, or that reaches out of its root in any way.
func (i *Image) Rootfs(ctx context.Context) (string, error) {
	dir, err := i.lib.unpacked(ctx, i)
	if err != nil {
		return "", fmt.Errorf("image %s: unpack: %w", i.ref, err)
	}
	return dir, nil
}

// ConfigFile is a copy of the image's whole configuration.
func (i *Image) ConfigFile() (*v1.ConfigFile, error) {
	return v1.ParseConfigFile(bytes.NewReader(i.raw))
}

// A Layer is what is known about a layer without reading it.
type Layer struct {
	DiffID      string // digest of its uncompressed archive: layers with the same one are shared
	Stored      int64  // bytes, as stored in the image
	Compression Compression
}

// Layers are the image's layers, the bottom one first.
func (i *Image) Layers() ([]Layer, error) {
	var all []Layer
	for _, l := range i.layers {
		c, err := l.compression()
		if err != nil {
			return nil, err
		}
		all = append(all, Layer{DiffID: l.diffID.String(), Stored: l.size, Compression: c})
	}
	return all, nil
}

// WithArgv returns an image with the same files that runs another program by default. It has a
// digest of its own, and no reference names it.
func (i *Image) WithArgv(argv ...string) (*Image, error) {
	config, err := v1.ParseConfigFile(bytes.NewReader(i.raw))
	if err != nil {
		return nil, fmt.Errorf("image %s: configuration: %w", i.ref, err)
	}
	config.Config.Entrypoint, config.Config.Cmd = argv, nil
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("image %s: configuration: %w", i.ref, err)
	}
	other, err := newImage(i.source, raw, slices.Clone(i.layers))
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", i.ref, err)
	}
	other.ref, other.lib, other.packed, other.pinned = i.ref, i.lib, i.packed, i.pinned
	return other, nil
}

// EachLayer calls use with the uncompressed archive of every layer, the bottom one first. The
// content is verified only when EachLayer returns without an error. All layers together may not
// exceed the Library's limit of bytes.
func (i *Image) EachLayer(ctx context.Context, use func(archive io.Reader) error) error {
	w := &walker{limits: i.lib.limits}
	for _, l := range i.layers {
		if err := w.readLayer(ctx, l, use); err != nil {
			return fmt.Errorf("image %s: layer %s: %w", i.ref, l.diffID, err)
		}
	}
	return nil
}

func (w *walker) readLayer(ctx context.Context, l layer, use func(io.Reader) error) error {
	r, err := l.uncompressed()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // only read from
	bounded := w.limitedReader(ctx, r)
	if err := use(bounded); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, bounded) // the digest covers the whole file
	return err
}

// Port is the TCP port on which the image's service listens, as the image states it; 0 if it states
// none or several.
func (i *Image) Port() uint16 {
	var only uint16
	for name := range i.config.ExposedPorts {
		number, protocol, _ := strings.Cut(name, "/")
		port, err := strconv.ParseUint(number, 10, 16)
		switch {
		case err != nil || protocol != "" && protocol != "tcp":
		case only != 0:
			return 0
		default:
			only = uint16(port)
		}
	}
	return only
}

// HealthCheck is the image's health check: a program and its arguments, to be run in the container;
// nil if it has none.
func (i *Image) HealthCheck() []string {
	check := i.config.Healthcheck
	if check == nil || len(check.Test) < 2 {
		return nil
	}
	switch argv := check.Test[1:]; check.Test[0] {
	case "CMD":
		return slices.Clone(argv)
	case "CMD-SHELL":
		return []string{"/bin/sh", "-c", argv[0]}
	}
	return nil
}
