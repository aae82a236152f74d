package supervise

import (
	"context"
	"errors"

	"github.com/tare-bench/tare/internal/bench"
)

// Reachable returns the cell's Spec with a network on which a client can reach the ports
// of a server. If the cell does not name a network, that is a bridge, or the host's
// network if the engine has no bridge; the engine has then prepared the Spec.
func Reachable(ctx context.Context, t bench.Task, ports []bench.Port) (bench.Spec, error) {
	spec := t.Spec
	if spec.Network != "" {
		return spec, nil
	}
	_, remote := bench.As[bench.Remoter](t.Engine)
	var err error
	for _, spec.Network = range []string{"bridge", "host"} {
		if spec.Reach, spec.Ports = "", nil; remote && spec.Network == "bridge" {
			// The container's own address works on its own machine only.
			spec.Reach, spec.Ports = bench.ReachPublished, ports
		}
		if err = t.Engine.Prepare(ctx, spec); !errors.Is(err, bench.ErrUnsupported) {
			break
		}
	}
	return spec, err
}

// OwnNetwork reports whether containers on a network have ports of their own.
func OwnNetwork(network string) bool {
	return network != "" && network != "none" && network != "host"
}
