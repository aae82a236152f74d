package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Limits are what the processes of a group may use together. Zero means no limit.
type Limits struct {
	CPUs   float64 // quota, in CPUs: 0.5 is half of one; at least 0.01
	CPUSet string  // kernel list format, such as "0-1,3"
	Memory int64   // bytes of RAM; it does not limit swap
	Pids   int64   // processes and threads
}

// period is the CPU quota's period in microseconds, the kernel's own default.
const period = 100_000

// A setting is one file to write.
type setting struct{ controller, v1, v2, value string }

// settings lists the files to write for l.
func (l Limits) settings() []setting {
	var s []setting
	if l.CPUs > 0 {
		quota := strconv.FormatInt(int64(math.Round(l.CPUs*period)), 10)
		s = append(
			s,
			setting{"cpu", "cpu.cfs_period_us", "", strconv.Itoa(period)},
			setting{"cpu", "cpu.cfs_quota_us", "cpu.max", quota},
		)
	}
	if l.CPUSet != "" {
		s = append(s, setting{"cpuset", "cpuset.cpus", "cpuset.cpus", l.CPUSet})
	}
	if l.Memory > 0 {
		s = append(s, setting{"memory", "memory.limit_in_bytes", "memory.max", strconv.FormatInt(l.Memory, 10)})
	}
	if l.Pids > 0 {
		s = append(s, setting{"pids", "pids.max", "pids.max", strconv.FormatInt(l.Pids, 10)})
	}
	return s
}

// Set applies the limits to an existing group. Limits that are zero in l stay as they are.
func (h *Hierarchy) Set(path string, l Limits) error {
	if err := checkOwn(path); err != nil {
		return err
	}
	if l.CPUs != 0 && !(l.CPUs >= 0.01 && l.CPUs < 1e6) || l.Memory < 0 || l.Pids < 0 {
		return fmt.Errorf("limits out of range: %+v: use a CPU quota of 0.01 or more, and no negative limit", l)
	}
	for _, s := range l.settings() {
		p, err := h.controllerDir(path, s.controller)
		if err != nil {
			return err
		}
		file := s.v1
		if p.v2 {
			file = s.v2
		}
		if file == "" {
			continue // the period: cpu.max on version 2 keeps it
		}
		if err := writeFile(filepath.Join(p.dir, file), s.value); err != nil {
			return err
		}
	}
	return nil
}

// Limits reads back the kernel's limits of the group itself; the limits of the groups above apply
// too. Controllers that do not exist here, or are not enabled for the group, limit nothing. CPUSet
// is the list of CPUs that the group may use, even if nothing restricts it.
func (h *Hierarchy) Limits(path string) (Limits, error) {
	if err := check(path); err != nil {
		return Limits{}, err
	}
	if err := h.exists(path); err != nil {
		return Limits{}, err
	}
	var l Limits
	var errs [4]error
	l.CPUs, errs[0] = h.readCPUs(path)
	l.CPUSet, errs[1] = h.readCPUSet(path)
	l.Memory, errs[2] = h.readLimit(path, "memory", "memory.limit_in_bytes", "memory.max")
	l.Pids, errs[3] = h.readLimit(path, "pids", "pids.max", "pids.max")
	return l, errors.Join(errs[:]...)
}

// exists returns an error that wraps fs.ErrNotExist unless the group exists.
func (h *Hierarchy) exists(path string) error {
	if slices.ContainsFunc(h.mustDirs(path), isDir) {
		return nil
	}
	return fmt.Errorf("cgroup %s: %w", path, fs.ErrNotExist)
}

// read reads a controller's file of the group. The text is nil, without an error, if the controller
// does not exist here or is not enabled for the group.
func (h *Hierarchy) read(path, controller, v1, v2 string) ([]byte, bool, error) {
	p, err := h.controllerDir(path, controller)
	if err != nil {
		return nil, false, nil // its only error is ErrController
	}
	file := v1
	if p.v2 {
		file = v2
	}
	text, err := readFile(filepath.Join(p.dir, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, p.v2, nil
	}
	return text, p.v2, err
}

func (h *Hierarchy) readCPUs(path string) (float64, error) {
	text, v2, err := h.read(path, "cpu", "cpu.cfs_quota_us", "cpu.max")
	if err != nil || text == nil {
		return 0, err
	}
	if v2 {
		return parseCPUMax(text)
	}
	quota, err := parseInt(text)
	if err != nil {
		return 0, fmt.Errorf("cpu.cfs_quota_us of %s: %w", path, err)
	}
	text, _, err = h.read(path, "cpu", "cpu.cfs_period_us", "")
	if err != nil {
		return 0, err
	}
	period, err := parseInt(text)
	if err != nil {
		return 0, fmt.Errorf("cpu.cfs_period_us of %s: %w", path, err)
	}
	return quotaCPUs(quota, period), nil
}

func (h *Hierarchy) readCPUSet(path string) (string, error) {
	text, _, err := h.read(path, "cpuset", "cpuset.cpus", "cpuset.cpus")
	if set := strings.TrimSpace(string(text)); set != "" || err != nil {
		return set, err
	}
	text, _, err = h.read(path, "cpuset", "cpuset.effective_cpus", "cpuset.cpus.effective")
	return strings.TrimSpace(string(text)), err
}

// noLimit is the value from which a limit means none. Version 1 prints the largest number of whole
// pages, and the size of a page differs between machines.
const noLimit = 1 << 62

func (h *Hierarchy) readLimit(path, controller, v1, v2 string) (int64, error) {
	text, _, err := h.read(path, controller, v1, v2)
	if err != nil || text == nil {
		return 0, err
	}
	n, err := parseInt(text)
	if err != nil {
		return 0, fmt.Errorf("%s limit of %s: %w", controller, path, err)
	}
	if n >= noLimit {
		return 0, nil
	}
	return n, nil
}
