package image

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tare-bench/tare/internal/image/pack"
)

// hostScheme begins a reference to a program of this host.
const hostScheme = "host"

// Packed returns what an image of a host's program was made from; nil for any other image. The
// caller must not change it.
func (i *Image) Packed() *pack.Set { return i.packed }

// Pack makes an image of programs of this host: names, or absolute paths. A container
// runs the first. The image's files are in the Library's directory. Errors are those of pack.Host.
func (l *Library) Pack(ctx context.Context, programs ...string) (*Image, error) {
	i, err := l.pack(ctx, programs...)
	if err != nil {
		return nil, err
	}
	i.ref, i.lib = hostScheme+":"+strings.Join(programs, "+"), l
	return i, nil
}

// pack makes the image by the recipe for the first program, if there is one. The same files
// give the same digest on every machine.
func (l *Library) pack(ctx context.Context, programs ...string) (*Image, error) {
	set, err := pack.Host{MaxBytes: l.limits.Bytes}.Pack(programs...)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(l.dir, "layers")
	id, size, err := writeLayer(ctx, dir, set.Entries)
	if err != nil {
		return nil, err
	}
	config := v1.Config{
		Entrypoint: set.Process.Entrypoint,
		Cmd:        set.Process.Cmd,
		Env:        set.Process.Env,
		WorkingDir: cmp.Or(set.Process.Dir, "/"),
	}
	for _, port := range set.Process.Ports {
		if config.ExposedPorts == nil {
			config.ExposedPorts = make(map[string]struct{})
		}
		config.ExposedPorts[port] = struct{}{}
	}
	raw, err := json.Marshal(configOf(config, id))
	if err != nil {
		return nil, err
	}
	i, err := newImage(directory(dir), raw, []layer{{file: layerFile(id), size: size}})
	if err != nil {
		return nil, err
	}
	i.packed = set
	return i, nil
}

// Stored is the size of all layers as they are stored, in bytes.
func (i *Image) Stored() (size int64) {
	for _, l := range i.layers {
		size += l.size
	}
	return size
}

func layerFile(id v1.Hash) string { return id.Hex + ".tar" }

// writeLayer writes entries into a file of dir. The file's name is its digest, so the same layer is
// there only once.
func writeLayer(ctx context.Context, dir string, entries []pack.Entry) (id v1.Hash, size int64, err error) {
	err = whole(dir, 0o755, func(f *os.File) (string, error) {
		sum := sha256.New()
		out := bufio.NewWriterSize(io.MultiWriter(f, sum), 1<<20)
		if err := errors.Join(pack.WriteLayer(ctx, out, entries), out.Flush()); err != nil {
			return "", err
		}
		id = v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}
		size, err = f.Seek(0, io.SeekCurrent)
		return layerFile(id), err
	})
	return id, size, err
}
