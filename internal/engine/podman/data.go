package podman

import (
	"bytes"
	"context"
	"net/http"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/image"
)

// openData makes bench.DataDir in the layer or in the volume, writable for every user. Images of
// tare's own contain the directory already. Nothing has shown yet that the ID is this container's, so
// the call names the container.
func (c *container) openData(ctx context.Context) error {
	if image.IsOwn(c.spec.Image) || c.spec.Storage != "layer" && c.spec.Storage != "volume" {
		return nil
	}
	archive, err := datadir.Archive()
	if err != nil {
		return err
	}
	answer, err := c.client.send(ctx, http.MethodPut, "/containers/"+c.name+"/archive?path=%2F", "application/x-tar",
		bytes.NewReader(archive))
	if err != nil {
		return c.failed("make "+bench.DataDir, err)
	}
	return answer.Body.Close()
}

// dataOf returns what bench.DataDir lies on according to Podman, and where that is on the host. The
// kind is "other" for a bind mount of a directory that tare did not ask for.
func (c *container) dataOf(got *inspection) (kind, source string) {
	if _, ok := got.HostConfig.Tmpfs[bench.DataDir]; ok {
		return "tmpfs", ""
	}
	for _, m := range got.Mounts {
		if m.Destination != bench.DataDir {
			continue
		}
		if m.Type == "bind" && m.Source != c.data.At() {
			return "other", m.Source
		}
		return m.Type, m.Source
	}
	return "layer", ""
}

// RemoveData implements bench.DataHolder.
func (e *Engine) RemoveData(_ context.Context, spec bench.Spec) error {
	return e.data.RemoveNamed(spec)
}
