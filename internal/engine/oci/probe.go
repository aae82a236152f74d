package oci

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// probeLimit limits how long a runtime may take to print its version.
const probeLimit = 5 * time.Second

// Probe asks the runtime for its version.
func (e *Engine) Probe(ctx context.Context) (bench.EngineInfo, error) {
	binary, err := e.findBinary()
	if err != nil {
		return bench.EngineInfo{}, err
	}
	v, err := probeVersion(ctx, binary)
	if err != nil {
		return bench.EngineInfo{}, err
	}
	info := bench.EngineInfo{
		Name: e.cfg.Name, Driver: "oci", Version: v.number,
		Facts: append([]bench.Label{{Key: "runtime", Value: v.name}, {Key: "binary", Value: binary}}, v.facts...),
	}
	groups, err := cgroup.Detect("/")
	if err != nil {
		return bench.EngineInfo{}, fmt.Errorf("%w: %s needs control groups: %w", bench.ErrUnsupported, e.cfg.Name, err)
	}
	info.Facts = append(info.Facts, bench.Label{Key: "cgroup", Value: string(groups.Version())})
	return info, checkHybrid(v.name, groups)
}

// checkHybrid refuses crun on machines where crun itself refuses to work: hybrid ones whose version
// 2 hierarchy still has a controller.
func checkHybrid(runtime string, groups *cgroup.Hierarchy) error {
	if runtime != "crun" || groups.Version() != cgroup.Hybrid {
		return nil
	}
	dir, err := groups.Dir("/", "")
	if err != nil {
		return err
	}
	text, err := proc.ReadFile(dir+"/cgroup.controllers", 4096)
	if err != nil {
		return err
	}
	if held := bytes.TrimSpace(text); len(held) > 0 {
		return fmt.Errorf("%w: with hybrid control groups, crun needs every controller on version 1, but %s has %q: "+
			"mount them as version 1, for example `mount -t cgroup -o hugetlb hugetlb /sys/fs/cgroup/hugetlb`",
			bench.ErrUnsupported, dir, held)
	}
	return nil
}

// A runtimeVersion is what a runtime says about itself.
type runtimeVersion struct {
	name, number string
	facts        []bench.Label
}

// probeVersion runs the runtime with --version.
func probeVersion(ctx context.Context, binary string) (runtimeVersion, error) {
	said, err := output(ctx, binary, "--version")
	if err != nil {
		return runtimeVersion{}, commandFailure([]string{binary, "--version"}, err, nil, said)
	}
	v, err := parseVersion(binary, string(said))
	if v.number == "VERSION_MISSING" {
		v.number = moduleVersion(binary)
	}
	return v, err
}

// moduleVersion is the version of the Go module that a program was built from. A runsc that was not
// built by its makers does not print a version.
func moduleVersion(binary string) string {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "unknown"
	}
	return info.Main.Version
}

// parseVersion reads "NAME version NUMBER" ("NAME version: NUMBER" for youki). From the lines below
// it, "KEY: VALUE", it reads the commit and the version of the specification.
func parseVersion(binary, text string) (runtimeVersion, error) {
	lines := strings.Split(text, "\n")
	words := strings.Fields(lines[0])
	if len(words) < 3 || strings.TrimSuffix(words[1], ":") != "version" {
		return runtimeVersion{}, fmt.Errorf("%s --version: this is not the output of an OCI runtime: %.80q", binary,
			lines[0])
	}
	v := runtimeVersion{name: words[0], number: words[2]}
	for _, line := range lines[1:] {
		key, value, ok := strings.Cut(line, ":")
		if ok && (key == "commit" || key == "spec") {
			v.facts = append(v.facts, bench.Label{Key: key, Value: strings.TrimSpace(value)})
		}
	}
	return v, nil
}

// A dialect is how a runtime differs from runc. Apart from that, all runtimes have runc's command
// line.
type dialect struct {
	// flags come before every command.
	flags func(spec bench.Spec) []string
	// refuse names the part of a Spec that the runtime would accept but not honour; empty if there
	// is none.
	refuse func(spec bench.Spec) string
	// sandbox: the processes inside have a kernel of their own, and the host sees only the sandbox.
	// Inspect asks the sandbox and the runtime's own state.
	sandbox bool
	// checkpoint is the program that writes checkpoints.
	checkpoint checkpointer
}

// A checkpointer is the program that writes a runtime's checkpoints.
type checkpointer int

const (
	noCheckpoint      checkpointer = iota
	criuCheckpoint                 // afterwards the runtime deletes the container
	runtimeCheckpoint              // afterwards tare must delete the stopped container
)

// dialectOf returns the dialect of a runtime, by the name that the runtime reports. Unknown
// runtimes are treated like runc.
func dialectOf(runtime string) dialect {
	d := dialect{
		flags:      func(bench.Spec) []string { return nil },
		refuse:     func(bench.Spec) string { return "" },
		checkpoint: criuCheckpoint,
	}
	switch runtime {
	case "youki":
		d.checkpoint = noCheckpoint // 0.7 has checkpoint but no restore
	case "runsc":
		d.flags, d.refuse = runscFlags, runscRefuses
		d.sandbox, d.checkpoint = true, runtimeCheckpoint
	}
	return d
}

// runscFlags sets what runsc reads from flags and not from config.json. Its default network is a
// stack of its own behind the interfaces of the namespace, and here that has none, not even
// loopback. Without net-raw, runsc drops the capability NET_RAW.
func runscFlags(spec bench.Spec) []string {
	if spec.Network == "host" {
		return []string{"--net-raw", "--network=host"}
	}
	return []string{"--net-raw", "--network=none"} // loopback only
}

func runscRefuses(spec bench.Spec) string {
	if spec.Network == "bridge" {
		return "network bridge: tare cannot connect the sandbox's own network stack to a bridge: use none or host"
	}
	if spec.Reach == bench.ReachSocket {
		return "network socket: a Unix socket of the sandbox's own kernel is not one of this host's"
	}
	if spec.Limits.Pids > 0 {
		return "limit of processes: it would count the threads of the sandbox, not the processes inside"
	}
	if spec.Security.UserNS {
		return "user namespaces: the runtime already has one of its own around the sandbox"
	}
	if spec.Security.Seccomp == bench.SeccompDocker {
		return "seccomp filter: the system calls of the processes inside go to the sandbox's own kernel"
	}
	return ""
}
