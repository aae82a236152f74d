// Package program makes tare's own image: the program, one for each architecture, and nothing else. It is what the
// pods of a fleet run.
package program

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/tare-bench/tare/internal/image/pack"
)

// Path is where the program is in the image.
const Path = "/tare"

// user is who the program runs as: nobody that a node knows.
const user = "65532:65532"

// maxProgram bounds what is read of one program, in bytes.
const maxProgram = 256 << 20

// machines are the architectures that an image can have.
func machines() map[elf.Machine]string {
	return map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}
}

// An Image is tare's own image, for the architectures of the programs that it was made of.
type Image struct {
	Architectures []string // such as "amd64", in alphabetical order
	index         v1.ImageIndex
}

// New makes the image of programs: files of tare, one for each architecture. The same files give the same image.
func New(ctx context.Context, files ...string) (*Image, error) {
	byArch := map[string]v1.Image{}
	var out Image
	for _, file := range files {
		arch, data, err := read(file)
		if err != nil {
			return nil, err
		}
		if byArch[arch] != nil {
			return nil, fmt.Errorf("%s: there is another program for %s", file, arch)
		}
		if byArch[arch], err = imageOf(ctx, arch, data); err != nil {
			return nil, err
		}
		out.Architectures = append(out.Architectures, arch)
	}
	slices.Sort(out.Architectures)
	out.index = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range out.Architectures {
		out.index = mutate.AppendManifests(out.index, mutate.IndexAddendum{
			Add:        byArch[arch],
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return &out, nil
}

// read returns a program, and what it runs on.
func read(file string) (arch string, data []byte, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if data, err = io.ReadAll(io.LimitReader(f, maxProgram+1)); err != nil {
		return "", nil, err
	}
	if len(data) > maxProgram {
		return "", nil, fmt.Errorf("%s is too large for a program of tare", file)
	}
	e, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return "", nil, fmt.Errorf("%s is no program of Linux: %w", file, err)
	}
	if slices.ContainsFunc(e.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return "", nil, fmt.Errorf("%s needs libraries, which the image does not have: build it with CGO_ENABLED=0", file)
	}
	if arch = machines()[e.Machine]; arch == "" {
		return "", nil, fmt.Errorf("%s is for %v, and images are made for amd64 and arm64", file, e.Machine)
	}
	return arch, data, nil
}

// imageOf makes the image for one architecture.
func imageOf(ctx context.Context, arch string, program []byte) (v1.Image, error) {
	entries := append(pack.Base(), pack.Entry{Path: Path, Mode: 0o755, Size: int64(len(program)), Data: program})
	slices.SortFunc(entries, func(a, b pack.Entry) int { return strings.Compare(a.Path, b.Path) })
	var files bytes.Buffer
	if err := pack.WriteLayer(ctx, &files, entries); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	made := v1.Time{Time: time.Unix(0, 0).UTC()}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: made, CreatedBy: "tare fleet image"},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, made
	config.Config = v1.Config{Entrypoint: []string{Path}, Env: []string{"PATH=/"}, WorkingDir: "/", User: user}
	return mutate.ConfigFile(image, config)
}

// CheckName reports whether an image can be called so, such as "registry.example.com/tare:1.2".
func CheckName(ref string) error {
	_, err := name.ParseReference(ref)
	return err
}

// Push sends the image to a registry, with the credentials that 'docker login' has left, and returns the reference
// by which it is this image for ever.
func (i *Image) Push(ctx context.Context, ref string) (pinned string, err error) {
	named, err := name.ParseReference(ref)
	if err != nil {
		return "", err
	}
	err = remote.WriteIndex(named, i.index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithUserAgent("tare"))
	if err != nil {
		return "", err
	}
	digest, err := i.index.Digest()
	return named.Context().Digest(digest.String()).Name(), err
}

// Write writes the image as an archive of an OCI image layout, called ref: 'ctr images import' and 'docker load'
// read it.
func (i *Image) Write(w io.Writer, ref string) error {
	named, err := name.ParseReference(ref)
	if err != nil {
		return err
	}
	a := archive{tar: tar.NewWriter(w), has: map[string]bool{}}
	top, err := i.index.RawManifest()
	if err != nil {
		return err
	}
	a.document("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	a.image(i.index)
	digest := a.blob(top)
	entry, err := json.Marshal(v1.IndexManifest{
		SchemaVersion: 2, MediaType: types.OCIImageIndex,
		Manifests: []v1.Descriptor{{
			MediaType: types.OCIImageIndex, Size: int64(len(top)), Digest: digest,
			Annotations: map[string]string{
				"io.containerd.image.name":          named.Name(),
				"org.opencontainers.image.ref.name": named.Identifier(),
			},
		}},
	})
	if err != nil {
		return err
	}
	a.document("index.json", entry)
	return errors.Join(a.err, a.tar.Close())
}

// An archive is an OCI image layout that is written as a tar archive. After an error it writes nothing.
type archive struct {
	tar *tar.Writer
	has map[string]bool
	err error
}

// image writes the images of an index.
func (a *archive) image(index v1.ImageIndex) {
	manifest, err := index.IndexManifest()
	a.err = errors.Join(a.err, err)
	for n := 0; a.err == nil && n < len(manifest.Manifests); n++ {
		a.err = a.one(index, manifest.Manifests[n].Digest)
	}
}

// one writes the image of one architecture.
func (a *archive) one(index v1.ImageIndex, digest v1.Hash) error {
	image, err := index.Image(digest)
	if err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for _, l := range layers {
		r, err := l.Compressed()
		if err != nil {
			return err
		}
		data, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
		a.blob(data)
	}
	for _, raw := range []func() ([]byte, error){image.RawConfigFile, image.RawManifest} {
		data, err := raw()
		if err != nil {
			return err
		}
		a.blob(data)
	}
	return a.err
}

// blob writes content under its digest, once.
func (a *archive) blob(data []byte) v1.Hash {
	sum := sha256.Sum256(data)
	digest := v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
	if !a.has[digest.Hex] {
		a.has[digest.Hex] = true
		a.document("blobs/sha256/"+digest.Hex, data)
	}
	return digest
}

func (a *archive) document(file string, data []byte) {
	if a.err != nil {
		return
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: file, Mode: 0o644, Size: int64(len(data)), ModTime: time.Unix(0, 0)}
	if a.err = a.tar.WriteHeader(h); a.err == nil {
		_, a.err = a.tar.Write(data)
	}
}
