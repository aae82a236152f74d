package podman

import (
	"context"
	"encoding/json"

	"github.com/tare-bench/tare/internal/bench"
)

// Body is what e sends to create a container without data.
func Body(ctx context.Context, e *Engine, spec bench.Spec) (string, error) {
	c, err := e.client(ctx, spec.Runtime)
	if err != nil {
		return "", err
	}
	l, err := e.images.Load(ctx, c, spec.Image)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(e.requestOf(c, spec, l, nil, ""))
	return string(text), err
}
