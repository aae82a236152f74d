package podman

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/stdstream"
)

// probeLimit bounds how long Podman may take to answer a Probe.
const probeLimit = 10 * time.Second

// info is what Podman says about itself.
type info struct {
	Host struct {
		CgroupControllers []string `json:"cgroupControllers"`
		CgroupManager     string   `json:"cgroupManager"`
		CgroupVersion     string   `json:"cgroupVersion"`
		LogDriver         string   `json:"logDriver"`
		NetworkBackend    string   `json:"networkBackend"`
		OCIRuntime        struct {
			Name    string `json:"name"`
			Path    string `json:"path"`
			Version string `json:"version"`
		} `json:"ociRuntime"`
		Conmon struct {
			Version string `json:"version"`
		} `json:"conmon"`
		Slirp    helper `json:"slirp4netns"`
		Pasta    helper `json:"pasta"`
		Security struct {
			Rootless bool `json:"rootless"`
		} `json:"security"`
	} `json:"host"`
	Store struct {
		Driver    string `json:"graphDriverName"`
		RunRoot   string `json:"runRoot"`
		GraphRoot string `json:"graphRoot"`
		Temporary string `json:"imageCopyTmpDir"` // where builds keep temporary files; empty if it is not told
	} `json:"store"`
	Version struct {
		Version string `json:"Version"`
	} `json:"version"`
}

// A helper is a program that Podman uses. Executable is empty if Podman has not found it.
type helper struct {
	Executable string `json:"executable"`
}

// cgroup is the version and the driver, such as "v2 systemd".
func (i *info) cgroup() string { return i.Host.CgroupVersion + " " + i.Host.CgroupManager }

// olderThan reports whether this Podman is older than a version.
func (i *info) olderThan(major, minor int) bool {
	var m, n int
	if _, err := fmt.Sscanf(i.Version.Version, "%d.%d", &m, &n); err != nil {
		return false
	}
	return m < major || m == major && n < minor
}

// Probe asks the service for its version and its set-up. If there is no service, it asks the
// program that would become one.
func (e *Engine) Probe(ctx context.Context) (bench.EngineInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	i, service, err := e.inspectPodman(ctx)
	if err != nil {
		return bench.EngineInfo{}, err
	}
	return bench.EngineInfo{
		Name: e.cfg.Name, Driver: "podman", Version: i.Version.Version, Facts: factsOf(i, service),
	}, nil
}

// OwnService is the fact about an engine whose service tare starts for each run.
var OwnService = bench.Label{Key: "service", Value: "started by tare"}

// inspectPodman returns what Podman says about itself, and where its service is. It starts no service.
func (e *Engine) inspectPodman(ctx context.Context) (i *info, service string, err error) {
	socket, err := e.find(ctx)
	if errors.Is(err, errNoService) {
		i, err = e.askProgram(ctx, err)
		return i, OwnService.Value, err
	}
	if err != nil {
		return nil, "", err
	}
	c := newClient(e.cfg.Name, socket, nil)
	defer c.http.CloseIdleConnections()
	if err := c.get(ctx, "/info", &c.info); err != nil {
		return nil, "", c.failed("info", err)
	}
	return &c.info, socket, nil
}

// askProgram asks the program; why is the reason that no service was asked. An ordinary user's podman
// leaves a process behind (catatonit -P, which holds the user's namespaces) as soon as it does more
// than print its version.
func (e *Engine) askProgram(ctx context.Context, why error) (*info, error) {
	binary, err := e.binary(why)
	if err != nil {
		return nil, err
	}
	i := &info{}
	if os.Geteuid() != 0 {
		out, err := e.ask(ctx, binary, "--version")
		i.Version.Version, i.Host.Security.Rootless = versionOf(string(out)), true
		return i, err
	}
	out, err := e.ask(ctx, binary, "info", "--format", "json")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(out, i); err != nil {
		return nil, fmt.Errorf("%s: podman info: %w", e.cfg.Name, err)
	}
	return i, nil
}

// ask runs the program and returns what it prints.
func (e *Engine) ask(ctx context.Context, binary string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = "/"
	out, said := &stdstream.First{Limit: maxAnswer}, &stdstream.First{Limit: 500}
	cmd.Stdout, cmd.Stderr = out, said
	err := stdstream.RunCommand(cmd)
	text := ""
	if s := bytes.TrimSpace(said.Text); len(s) > 0 {
		text = fmt.Sprintf(": %q", s)
	}
	switch {
	case err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return nil, fmt.Errorf("%s: podman %s took too long%s: if it always does, start `podman system service -t 0 "+
			"unix:///PATH` and name it with host=unix:///PATH: %w",
			e.cfg.Name, args[0], text, context.DeadlineExceeded)
	case err != nil:
		return nil, fmt.Errorf("%s: podman %s: %w%s", e.cfg.Name, args[0], bench.Because(ctx, err), text)
	}
	return out.Text, nil
}

func factsOf(i *info, service string) []bench.Label {
	facts := []bench.Label{{Key: OwnService.Key, Value: service}}
	for _, f := range []bench.Label{
		{Key: "storage", Value: i.Store.Driver},
		{Key: "cgroup", Value: i.cgroup()},
		{Key: "runtime", Value: i.Host.OCIRuntime.Name},
		{Key: i.Host.OCIRuntime.Name, Value: versionOf(i.Host.OCIRuntime.Version)},
		{Key: "conmon", Value: strings.TrimSuffix(versionOf(i.Host.Conmon.Version), ",")},
		{Key: "network", Value: i.Host.NetworkBackend},
		{Key: "log", Value: i.Host.LogDriver},
	} {
		if strings.TrimSpace(f.Value) != "" { // Podman may leave some facts empty
			facts = append(facts, f)
		}
	}
	if i.Host.Security.Rootless {
		facts = append(facts, bench.Label{Key: "rootless", Value: "true"})
	}
	return facts
}

// versionOf is the number in a program's version text, such as "crun version 1.8.1" and more lines.
func versionOf(text string) string {
	_, rest, _ := strings.Cut(text, "version ")
	if f := strings.Fields(rest); len(f) > 0 {
		return f[0]
	}
	return ""
}
