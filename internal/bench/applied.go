package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Applied is what an engine really applied to a container, read back from the
// engine or, better, from the kernel; never copied from the Spec. It is the same
// in all trials of a cell, so that it can be compared.
type Applied struct {
	Runtime string   `json:"runtime,omitempty"` // OCI runtime, such as "runc"; empty without one
	Image   string   `json:"image,omitempty"`   // digest of the image's configuration, "sha256:…"
	Argv    []string `json:"argv,omitempty"`
	Network string   `json:"network"`           // in the words of Spec.Network
	Storage string   `json:"storage,omitempty"` // file system of the root, such as "overlay"
	// Data is the storage of DataDir, "layer", "volume", "bind" or "tmpfs", and after a
	// blank its file system, such as "bind ext4".
	Data string `json:"data,omitempty"`
	// DataMounts are the file systems below DataDir with their options, such as "ext4
	// rw,relatime", the outermost first: an overlay, then what its writable layer is on.
	// Options that differ from container to container, which are paths and numbers of
	// layers, are left out.
	DataMounts []string `json:"data_mounts,omitempty"`
	// Path is what a packet from the client passes, as Addresser.Path; empty without a
	// client.
	Path     []string `json:"path,omitempty"`
	Mounts   []Mount  `json:"mounts,omitempty"` // those that the Spec asked for, as the kernel has them
	Limits   Limits   `json:"limits,omitzero"`
	Security Security `json:"security,omitzero"`
	Cgroup   string   `json:"cgroup,omitempty"` // version and driver, such as "v2 systemd"
	// Shm is the size of /dev/shm in bytes; 0 = there is none, or it cannot be seen.
	Shm int64 `json:"shm_bytes,omitempty"`
	// Builder is what built an image, with all versions; empty where none was built.
	Builder string `json:"builder,omitempty"`
	// Process is what the first process has while its program runs; nil = not read.
	Process *ProcessFacts `json:"process,omitempty"`
	// Maker is the program that had the engine make it, with its version, such as "docker-compose
	// 1.29.2"; empty = tare's own driver.
	Maker string `json:"maker,omitempty"`
	// Facts are what the program inside says of itself while it runs, by name, such as the version and the settings of a
	// server; nil = it was not asked.
	Facts map[string]string `json:"facts,omitempty"`
}

// ProcessFacts are what the kernel holds for a process.
type ProcessFacts struct {
	UID   int    `json:"uid"`   // effective, as the host numbers users
	Files uint64 `json:"files"` // RLIMIT_NOFILE, the soft limit
	OOM   int    `json:"oom"`   // oom_score_adj
}

// Attest compares a Spec with what was applied. Its error names every mismatch and
// wraps ErrMismatch. Fields that the Spec leaves to the engine are not compared, but
// a limit that the Spec does not set is a mismatch too.
func Attest(want Spec, got Applied) error {
	var bad []string
	diff := func(what string, want, got any) {
		bad = append(bad, fmt.Sprintf("%s: asked for %v, got %v", what, want, got))
	}
	if n := want.Network; n != "" && n != got.Network {
		diff("network", n, got.Network)
	} else if n == "" && got.Network == "bridge" {
		diff("network", "the default", got.Network)
	}
	if want.Runtime != "" && want.Runtime != got.Runtime {
		diff("runtime", want.Runtime, got.Runtime)
	}
	if len(want.Argv) > 0 && !slices.Equal(want.Argv, got.Argv) {
		diff("argv", want.Argv, got.Argv)
	}
	if on, _, _ := strings.Cut(got.Data, " "); want.Storage != "" && want.Storage != on {
		diff("storage", want.Storage, got.Data)
	}
	if want.Shm != 0 && want.Shm != got.Shm {
		diff("shm", want.Shm, got.Shm)
	}
	for _, m := range want.Mounts {
		if !slices.Contains(got.Mounts, m) {
			diff("mount", m, got.Mounts)
		}
	}
	w, g := want.Limits, got.Limits
	// Engines express the quota in microseconds of a 100 ms period.
	if math.Abs(w.CPUs-g.CPUs) > 1e-4 {
		diff("cpu quota", w.CPUs, g.CPUs)
	}
	if w.CPUSet != "" && w.CPUSet != g.CPUSet {
		diff("cpuset", w.CPUSet, g.CPUSet)
	}
	if w.Memory != g.Memory {
		diff("memory limit", w.Memory, g.Memory)
	}
	if w.Pids != 0 && w.Pids != g.Pids {
		diff("pids limit", w.Pids, g.Pids)
	}
	s, t := want.Security, got.Security
	if s.Seccomp != "" && s.Seccomp != t.Seccomp {
		diff("seccomp", s.Seccomp, t.Seccomp)
	}
	s.Seccomp, t.Seccomp = "", ""
	if !s.UserNS {
		// A user namespace is no mismatch: rootless engines need one.
		t.UserNS = false
	}
	if s != t {
		diff("security", fmt.Sprintf("%+v", s), fmt.Sprintf("%+v", t))
	}
	if bad == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrMismatch, strings.Join(bad, "; "))
}
