package containerd

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/containerd/containerd/v2/defaults"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/stdstream"
)

// Probe asks containerd for its version, and the runtime for its own.
func (e *Engine) Probe(ctx context.Context) (bench.EngineInfo, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, connectLimit, errors.New("containerd does not answer"))
	defer cancel()
	s, done, err := e.connectTemporarily(ctx)
	if err != nil {
		return bench.EngineInfo{}, err
	}
	defer done()
	r, err := e.check(s, bench.Spec{})
	if err != nil {
		return bench.EngineInfo{}, err
	}
	version, err := s.client.Version(ctx)
	if err != nil {
		return bench.EngineInfo{}, e.failed("version", bench.Because(ctx, err))
	}
	return bench.EngineInfo{
		Name: e.cfg.Name, Driver: "containerd", Version: version.Version,
		Facts: append(s.daemon.runtimeFacts(ctx, r),
			bench.Label{Key: "snapshotter", Value: e.cfg.Snapshotter},
			bench.Label{Key: "cgroup", Value: cgroupOf(s)},
			bench.Label{Key: "namespace", Value: namespace}),
	}, nil
}

// cgroupOf is the version of control groups and their manager, such as "v2 cgroupfs".
func cgroupOf(s *server) string { return string(s.groups.Version()) + " cgroupfs" }

// runtimeFacts are the default runtime, and its version if the runtime reports one.
func (d daemon) runtimeFacts(ctx context.Context, r runtime) []bench.Label {
	facts := []bench.Label{{Key: "runtime", Value: r.name}, {Key: "shim", Value: r.shim}}
	program := r.binary
	if program == "" {
		program = r.name
	}
	binary, err := d.lookPath(program)
	if err != nil {
		return facts
	}
	if v := versionOf(ctx, binary); v != "" {
		facts = append(facts, bench.Label{Key: "runtime version", Value: v})
	}
	return facts
}

// versionOf is the version that an OCI runtime prints, "NAME version NUMBER" on its first line;
// empty if it prints none.
func versionOf(ctx context.Context, binary string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	text, _ := stdstream.Run(ctx, 200, binary, "--version") // only the printed text matters
	line, _, _ := bytes.Cut(text, []byte("\n"))
	words := bytes.Fields(line)
	if len(words) < 3 || string(words[1]) != "version" {
		return ""
	}
	return string(words[2])
}

// Restart restarts containerd if systemd manages it, and returns when it answers again. Running
// containers survive a restart.
func (e *Engine) Restart(ctx context.Context) error {
	elsewhere := ""
	if e.cfg.Address != defaults.DefaultAddress {
		elsewhere = e.cfg.Address
	}
	return e.run.Restart(ctx, "containerd.service", elsewhere, func() error {
		s, done, err := e.connectTemporarily(ctx) // the connection heals by itself
		if err == nil {
			_, err = s.client.Version(ctx)
			done()
		}
		return err
	})
}
