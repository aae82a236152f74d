package oci

import (
	"github.com/tare-bench/tare/internal/bench"
)

// A dialect is how a runtime differs from runc, on whose command line all of
// them agree otherwise.
type dialect struct {
	// flags come before every command.
	flags func(spec bench.Spec) []string
	// refuse says what of a Spec the runtime would take and not honour.
	refuse func(spec bench.Spec) string
	// sandbox: the processes inside have a kernel of their own, and the host
	// sees only the sandbox. Inspect asks it and the runtime's own state.
	sandbox bool
	// checkpoint is who writes checkpoints.
	checkpoint checkpointer
}

// A checkpointer is who writes a runtime's checkpoints.
type checkpointer int

const (
	byNobody  checkpointer = iota
	byCRIU                 // and the runtime deletes the container afterwards
	byRuntime              // which leaves the stopped container to be deleted
)

// dialectOf returns the dialect of a runtime by the name that it gives itself.
// A runtime that is not known is taken for one like runc.
func dialectOf(runtime string) dialect {
	d := dialect{
		flags:      func(bench.Spec) []string { return nil },
		refuse:     func(bench.Spec) string { return "" },
		checkpoint: byCRIU,
	}
	switch runtime {
	case "youki":
		d.checkpoint = byNobody // 0.7 has a checkpoint and no restore
	case "runsc":
		d.flags, d.refuse = runscFlags, runscRefuses
		d.sandbox, d.checkpoint = true, byRuntime
	}
	return d
}

// runscFlags sets what runsc takes from its flags and not from config.json. Its
// default network is a stack between the interfaces of the namespace, of which
// there are none here, not even loopback. Without net-raw it takes one of the
// capabilities away.
func runscFlags(spec bench.Spec) []string {
	if spec.Network == "host" {
		return []string{"--net-raw", "--network=host"}
	}
	return []string{"--net-raw", "--network=none"} // loopback only
}

func runscRefuses(spec bench.Spec) string {
	if spec.Network == "bridge" {
		return "network bridge: its own network stack is not put on one: use none or host"
	}
	if spec.Limits.Pids > 0 {
		return "a limit of processes: it would count the sandbox's threads, not the processes inside"
	}
	if spec.Security.UserNS {
		return "user namespaces: it has one of its own already, around its sandbox"
	}
	if spec.Security.Seccomp == bench.SeccompDocker {
		return "a filter of system calls: those of the processes inside go to a kernel of their own"
	}
	return ""
}
