package bench_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

func TestCheckNetwork(t *testing.T) {
	web := []bench.Port{{Container: 80, Protocol: "tcp"}}
	moved := []bench.Port{{Container: 80, Host: 8080, Protocol: "udp"}}
	every := []string{"none", "host", "bridge", "macvlan", "slirp4netns"}
	process := []string{"", "host"}
	for _, test := range []struct {
		networks []string
		spec     bench.Spec
		why      string // empty where nothing is wrong
	}{
		{every, bench.Spec{}, ""},
		{every, bench.Spec{Network: "host", Ports: web}, ""},
		{every, bench.Spec{Network: "bridge", Ports: web}, ""},
		{every, bench.Spec{Network: "bridge", Ports: moved, Reach: "published"}, ""},
		{every, bench.Spec{Network: "bridge", Ports: web, Reach: "peer"}, ""},
		{every, bench.Spec{Network: "macvlan", Ports: web, Reach: "peer"}, ""},
		{every, bench.Spec{Network: "macvlan"}, ""},
		{every, bench.Spec{Network: "bridge", Reach: "published"}, ""},
		{every, bench.Spec{Network: "slirp4netns", Ports: web, Reach: "published"}, ""},
		{process, bench.Spec{Ports: web}, ""},
		{process, bench.Spec{Network: "host", Ports: web}, ""},
		{every, bench.Spec{Reach: "socket"}, ""},
		{every, bench.Spec{Network: "none", Reach: "socket"}, ""},
		{every, bench.Spec{Network: "bridge", Reach: "socket"}, ""},
		{process, bench.Spec{Reach: "socket"}, ""},

		{every, bench.Spec{Network: "bridge", Ports: web, Reach: "socket"}, "no ports"},
		{process, bench.Spec{Network: "none", Reach: "socket"}, "use host"},
		{process, bench.Spec{Network: "none"}, "use host"},
		{every, bench.Spec{Network: "pasta"}, "use none, host, bridge, macvlan or slirp4netns"},
		{every, bench.Spec{Network: "bridge", Reach: "tunnel"}, `reach "tunnel"`},
		{every, bench.Spec{Ports: web}, "without a network"},
		{every, bench.Spec{Network: "host", Ports: web, Reach: "published"}, "a network of the container's own"},
		{process, bench.Spec{Ports: web, Reach: "peer"}, "a network of the container's own"},
		{every, bench.Spec{Network: "bridge", Ports: moved}, "reach published"},
		{process, bench.Spec{Ports: moved}, "reach published"},
		{every, bench.Spec{Network: "macvlan", Ports: web}, "use reach peer"},
		{every, bench.Spec{Network: "macvlan", Ports: web, Reach: "published"}, "use reach peer"},
		{every, bench.Spec{Network: "slirp4netns", Ports: web}, "use reach published"},
		{every, bench.Spec{Network: "slirp4netns", Ports: web, Reach: "peer"}, "use reach published"},
		{every, bench.Spec{Network: "bridge", Ports: []bench.Port{{Container: 80, Protocol: "sctp"}}}, `protocol "sctp"`},
		{every, bench.Spec{Network: "bridge", Ports: []bench.Port{{Protocol: "tcp"}}}, "port 0"},
		{every, bench.Spec{Network: "bridge", Ports: []bench.Port{{Container: 80, Protocol: "tcp", Address: "host"}}}, "not an IP address"},
	} {
		err := bench.CheckNetwork(test.spec, test.networks...)
		if test.why == "" {
			if err != nil {
				t.Errorf("%+v: %v", test.spec, err)
			}
			continue
		}
		if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), test.why) {
			t.Errorf("%+v: %v, want bench.ErrUnsupported and %q", test.spec, err, test.why)
		}
	}
}

// A plainWorkload has no socket.
type plainWorkload struct{ bench.Workload }

func (plainWorkload) Name() string { return "plain" }

// A socketWorkload can use one.
type socketWorkload struct{ plainWorkload }

func (socketWorkload) Socketed() {}

// A farEngine is on another machine.
type farEngine struct{ bench.Engine }

func (farEngine) Name() string          { return "far" }
func (farEngine) Lost() <-chan struct{} { return nil }

func TestCheckReach(t *testing.T) {
	socket := bench.Spec{Reach: bench.ReachSocket}
	for _, test := range []struct {
		workload bench.Workload
		engine   bench.Engine
		spec     bench.Spec
		why      string // empty where nothing is wrong
	}{
		{plainWorkload{}, nil, bench.Spec{Reach: bench.ReachPeer}, ""},
		{plainWorkload{}, nil, socket, "plain does not use a Unix socket"},
		{socketWorkload{}, nil, socket, ""},
		{socketWorkload{}, farEngine{}, socket, "far is on another machine"},
		{socketWorkload{}, farEngine{}, bench.Spec{}, ""},
	} {
		err := bench.CheckReach(test.workload, test.engine, test.spec)
		if test.why == "" && err != nil ||
			test.why != "" && (!errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), test.why)) {
			t.Errorf("%T on %T, reach %q: %v, want %q", test.workload, test.engine, test.spec.Reach, err, test.why)
		}
	}
}
