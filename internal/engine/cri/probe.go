package cri

import (
	"context"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tare-bench/tare/internal/bench"
)

// probeLimit limits how long the server may take to answer a Probe.
const probeLimit = 10 * time.Second

// Probe asks the server for its version and, the first time, for its set-up.
func (e *Engine) Probe(ctx context.Context) (bench.EngineInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	s, err := e.status(ctx)
	if err != nil {
		return bench.EngineInfo{}, err
	}
	if _, err := s.Version(ctx, &cri.VersionRequest{}); err != nil { // it may have ended meanwhile
		return bench.EngineInfo{}, e.failed(ctx, "version", err)
	}
	return bench.EngineInfo{
		Name: e.cfg.Name, Driver: "cri", Version: s.version.RuntimeVersion,
		Facts: e.facts(s),
	}, nil
}

func (e *Engine) facts(s *server) []bench.Label {
	network := s.network
	if network == "" {
		network = "unknown"
	}
	facts := []bench.Label{
		{Key: "server", Value: s.version.RuntimeName},
		{Key: "api", Value: s.version.RuntimeApiVersion},
		{Key: "cgroup", Value: cgroupOf(s)},
		{Key: "default network", Value: "host"},
		{Key: "pod network", Value: network},
		{Key: "exit", Value: "polled"},
	}
	if s.portmap {
		facts = append(facts, bench.Label{Key: "pod ports", Value: "portmap"})
	}
	for _, f := range []bench.Label{
		{Key: "storage", Value: s.config.Containerd.Snapshotter},
		{Key: "runtime", Value: e.runtimeOf(s, bench.Spec{})},
		{Key: "pause", Value: e.pauseName(s)},
	} {
		if f.Value != "" {
			facts = append(facts, f)
		}
	}
	return facts
}

// runtimeOf is the runtime of a pod of spec, as a Spec names it; empty if the server does not tell
// its default.
func (e *Engine) runtimeOf(s *server, spec bench.Spec) string {
	if h := e.handlerOf(spec); h != "" {
		return h
	}
	return s.config.Containerd.DefaultRuntimeName
}

// handlerOf is the runtime handler that tare requests; empty is the server's default.
func (e *Engine) handlerOf(spec bench.Spec) string {
	if spec.Runtime != "" {
		return spec.Runtime
	}
	return e.cfg.RuntimeHandler
}
