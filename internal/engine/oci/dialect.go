package oci

import (
	"github.com/tare-bench/tare/internal/bench"
)

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
