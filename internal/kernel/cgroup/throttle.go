package cgroup

import (
	"path/filepath"
	"slices"
)

// A Throttle is a limit that works in periods or by tokens: what rests now may go faster later.
type Throttle struct {
	Kind string // such as "a CPU quota"
	File string // where the kernel says so, such as "cpu.max"
	Path string // the group that has it
}

// Throttles returns the CPU quotas and the limits on block devices of a process's groups and of all
// groups above them, nearest first. paths are its groups by controller, as PathOf returns them. If
// tare runs in a container, it does not see the groups above that container.
func (h *Hierarchy) Throttles(paths map[string]string) (all []Throttle, err error) {
	err = upward(paths, "cpu", func(path string) error {
		cpus, err := h.readCPUs(path)
		if cpus > 0 {
			all = append(all, Throttle{"a CPU quota", h.fileOf("cpu", "cpu.cfs_quota_us", "cpu.max"), path})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	err = upward(paths, "blkio", func(path string) error {
		if len(h.blockLimits(path)) > 0 {
			all = append(all, Throttle{"a limit on block devices", h.fileOf("blkio", "blkio.throttle.*", "io.max"), path})
		}
		return nil
	})
	return slices.Clip(all), err
}

// upward calls do for a controller's group and for each one above it.
func upward(paths map[string]string, controller string, do func(path string) error) error {
	path, ok := pathIn(paths, controller)
	for ok {
		if err := do(path); err != nil {
			return err
		}
		ok, path = path != "/", filepath.Dir(path)
	}
	return nil
}

// fileOf returns the name of a controller's file on this machine.
func (h *Hierarchy) fileOf(controller, v1, v2 string) string {
	if p, err := h.controllerDir("/", controller); err == nil && !p.v2 {
		return v1
	}
	return v2
}
