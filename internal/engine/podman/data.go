package podman

import (
	"bytes"
	"context"
	"net/http"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/image"
)

// openData makes bench.DataDir in the layer or in the volume, for every user.
// Images of tare's own have it, and Podman has copied it.
func (c *running) openData(ctx context.Context) error {
	if image.Own(c.spec.Image) || c.spec.Storage != "layer" && c.spec.Storage != "volume" {
		return nil
	}
	archive, err := datadir.Archive()
	if err != nil {
		return err
	}
	answer, err := c.client.send(ctx, http.MethodPut, "/containers/"+c.id+"/archive?path=%2F", "application/x-tar", bytes.NewReader(archive))
	if err != nil {
		return c.failed("make "+bench.DataDir, err)
	}
	return answer.Body.Close()
}

// dataOf is Podman's word on what bench.DataDir lies on, and where on the host
// that is. A bind mount of another directory than ours is "other".
func (c *running) dataOf(got *inspection) (kind, source string) {
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
