package docker

import (
	"context"
	"strings"
	"time"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
)

// probeLimit limits how long the engine may take to answer a Probe.
const probeLimit = 10 * time.Second

// Probe asks the engine for its version and its set-up.
func (e *Engine) Probe(ctx context.Context) (bench.EngineInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	if err := e.reach(ctx); err != nil {
		return bench.EngineInfo{}, err
	}
	version, err := e.client.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return bench.EngineInfo{}, e.failed("version", err)
	}
	answer, err := e.client.Info(ctx, client.InfoOptions{})
	if err != nil {
		return bench.EngineInfo{}, e.failed("info", err)
	}
	facts := []bench.Label{{Key: "api", Value: version.APIVersion}}
	for _, c := range version.Components {
		if c.Name == "containerd" || c.Name == "runc" {
			facts = append(facts, bench.Label{Key: c.Name, Value: c.Version})
		}
	}
	return bench.EngineInfo{
		Name: e.cfg.Name, Driver: "docker", Version: version.Version,
		Facts: append(facts, factsOf(&answer.Info)...),
	}, nil
}

func factsOf(info *system.Info) []bench.Label {
	facts := []bench.Label{
		{Key: "storage", Value: info.Driver},
		{Key: "cgroup", Value: cgroupOf(info)},
		{Key: "runtime", Value: info.DefaultRuntime},
		{Key: "log", Value: info.LoggingDriver},
	}
	for _, option := range []string{"rootless", "userns"} {
		if hasOption(info, option) {
			facts = append(facts, bench.Label{Key: option, Value: "true"})
		}
	}
	return facts
}

// cgroupOf is the version and the driver, such as "v2 systemd".
func cgroupOf(info *system.Info) string {
	version := info.CgroupVersion
	if version == "" {
		version = "1" // engines that do not tell have version 1
	}
	return "v" + version + " " + info.CgroupDriver
}

// hasOption reports whether the engine runs with a security option, which it
// lists as "name=OPTION,key=value".
func hasOption(info *system.Info, option string) bool {
	for _, o := range info.SecurityOptions {
		if name, _, _ := strings.Cut(o, ","); name == "name="+option {
			return true
		}
	}
	return false
}

// reach distinguishes a missing engine from one that does not answer. The client library has no
// types for this.
func (e *Engine) reach(ctx context.Context) error {
	if e.clientErr != nil {
		return e.clientErr
	}
	conn, err := e.connect(ctx)
	if err == nil {
		return conn.Close()
	}
	return e.run.Unreachable(err, e.client.DaemonHost(), "run tare with sudo, or add this user to the group docker",
		"install it, and start it with `systemctl start docker` or `dockerd`")
}

// Restart restarts the engine if systemd manages it, and returns when it answers again. Running
// containers do not survive a restart.
func (e *Engine) Restart(ctx context.Context) error {
	if e.clientErr != nil {
		return e.clientErr
	}
	elsewhere := ""
	if host := e.client.DaemonHost(); !strings.HasPrefix(host, "unix://") {
		elsewhere = host
	}
	return e.run.Restart(ctx, "docker.service", elsewhere, func() error {
		_, err := e.client.Ping(ctx, client.PingOptions{})
		return err
	})
}
