// Package ocispec is what engines that write an OCI specification themselves write alike.
package ocispec

import (
	"math"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tare-bench/tare/internal/bench"
)

// Version is what a specification says it complies with: the oldest that has what
// is used here, because runtimes refuse one that they do not know.
const Version = "1.0.2"

// Mounts are mounts that were asked for.
func Mounts(asked []bench.Mount) []specs.Mount {
	list := make([]specs.Mount, len(asked))
	for i, m := range asked {
		list[i] = Mount(m)
	}
	return list
}

// Mount is a mount that was asked for.
func Mount(m bench.Mount) specs.Mount {
	mode := "rw"
	if m.ReadOnly {
		mode = "ro"
	}
	if m.Type == "bind" {
		return specs.Mount{
			Destination: m.Target, Type: "bind", Source: m.Source, Options: []string{"rbind", "rprivate", mode},
		}
	}
	options := []string{"nosuid", "nodev", "mode=1777", mode}
	if m.Size > 0 {
		options = append(options, "size="+strconv.FormatInt(m.Size, 10))
	}
	return specs.Mount{Destination: m.Target, Type: "tmpfs", Source: "tmpfs", Options: options}
}

// Shm is the size of /dev/shm that a specification asks for, in bytes: asked, if it is that size. It is
// for sandboxes, whose mounts this host's kernel does not have. It is 0 if the specification has no size.
func Shm(s *specs.Spec, asked int64) int64 {
	for _, m := range s.Mounts {
		if m.Destination != "/dev/shm" {
			continue
		}
		for _, o := range m.Options {
			if size, ok := strings.CutPrefix(o, "size="); ok {
				return shmSize(size, asked)
			}
		}
	}
	return 0
}

// shmSize reads the size of a tmpfs, in bytes or in KiB.
func shmSize(text string, asked int64) int64 {
	number, kib := strings.CutSuffix(text, "k")
	n, err := strconv.ParseInt(number, 10, 64)
	switch {
	case err != nil:
		return 0
	case kib && n == (asked+1023)/1024:
		return asked
	case kib:
		return n << 10
	}
	return n
}

// Limit adds limits to resources, and leaves those that were not asked for alone.
func Limit(r *specs.LinuxResources, l bench.Limits) {
	if l.CPUs > 0 || l.CPUSet != "" {
		r.CPU = &specs.LinuxCPU{Cpus: l.CPUSet}
	}
	if l.CPUs > 0 {
		period := uint64(100_000) // µs, the kernel's default
		quota := int64(math.Round(l.CPUs * float64(period)))
		r.CPU.Period, r.CPU.Quota = &period, &quota
	}
	if l.Memory > 0 {
		r.Memory = &specs.LinuxMemory{Limit: &l.Memory}
	}
	if l.Pids > 0 {
		r.Pids = &specs.LinuxPids{Limit: &l.Pids}
	}
}
