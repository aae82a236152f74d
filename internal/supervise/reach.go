package supervise

import (
	"context"
	"errors"

	"github.com/tare-bench/tare/internal/bench"
)

// Reachable is the cell's specification with a network on which a client reaches the
// ports of a server: where the cell leaves it open a bridge, or the host's where the
// engine has none. The engine has prepared it then.
func Reachable(ctx context.Context, t bench.Task, ports []bench.Port) (bench.Spec, error) {
	spec := t.Spec
	if spec.Network != "" {
		return spec, nil
	}
	_, remote := bench.As[bench.Remoter](t.Engine)
	var err error
	for _, spec.Network = range []string{"bridge", "host"} {
		if spec.Reach, spec.Ports = "", nil; remote && spec.Network == "bridge" {
			// Its own address is for its machine alone.
			spec.Reach, spec.Ports = bench.ReachPublished, ports
		}
		if err = t.Engine.Prepare(ctx, spec); !errors.Is(err, bench.ErrUnsupported) {
			break
		}
	}
	return spec, err
}

// OwnNetwork tells whether containers have ports of their own there.
func OwnNetwork(network string) bool {
	return network != "" && network != "none" && network != "host"
}
