package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/netns"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// plant puts a cause into the container that is about to be started: it has its
// control groups and its network, and its process waits.
func plant(binary, operation, how string) error {
	pid, err := waiting(binary, operation)
	if err != nil {
		return err
	}
	name, value, _ := strings.Cut(how, "=")
	switch name {
	case "steal":
		return beginThief(pid, value)
	case "wiops":
		return limitWrites(pid, value)
	case "rate":
		return limitRate(pid, value)
	}
	return fmt.Errorf("plant %q: want steal=CPU, wiops=NUMBER or rate=RATE", how)
}

// waiting is the process of the container that the arguments are about.
func waiting(binary, operation string) (int, error) {
	args := slices.Clone(os.Args[1:])
	args[slices.Index(args, operation)] = "state"
	out, err := exec.Command(binary, args...).Output()
	if err != nil {
		return 0, fmt.Errorf("state: %w", err)
	}
	var state struct{ Pid int }
	err = json.Unmarshal(out, &state)
	return state.Pid, err
}

// beginThief begins a busy loop on a CPU, in the control groups of the
// container, where it counts as much as what runs inside.
func beginThief(pid int, cpu string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	thief := exec.Command(self, strconv.Itoa(pid))
	thief.Args[0] = self + "/thief"
	thief.Env = append(os.Environ(), "CPU="+cpu, "GOMAXPROCS=1", "GOGC=off")
	return thief.Start()
}

// steal runs until the container's process has ended.
func steal() error {
	pid, err1 := strconv.Atoi(os.Args[1])
	cpu, err2 := strconv.Atoi(os.Getenv("CPU"))
	if err1 != nil || err2 != nil {
		return fmt.Errorf("thief: %v, %v", err1, err2)
	}
	var one unix.CPUSet
	one.Set(cpu)
	for _, tid := range threads() {
		if err := unix.SchedSetaffinity(tid, &one); err != nil {
			return err
		}
	}
	if err := join(pid); err != nil {
		return err
	}
	for proc.IsRunning("/", pid) {
		for began := time.Now(); time.Since(began) < 2*time.Millisecond; {
		}
	}
	return nil
}

func threads() (all []int) {
	names, _ := filepath.Glob("/proc/self/task/*")
	for _, name := range names {
		if tid, err := strconv.Atoi(filepath.Base(name)); err == nil {
			all = append(all, tid)
		}
	}
	return all
}

// join enters the groups of a process in which CPU time is shared out.
func join(pid int) error {
	dir, err := groupOf(pid, "cpu")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
}

// groupOf is the directory of a process's control group.
func groupOf(pid int, controller string) (string, error) {
	h, err := cgroup.Detect("/")
	if err != nil {
		return "", err
	}
	paths, err := h.PathOf(pid)
	if err != nil {
		return "", err
	}
	path, ok := paths[controller]
	if !ok {
		path = paths[""]
	}
	return h.Dir(path, controller)
}

// limitWrites limits the operations per second on the disk below the container's
// files.
func limitWrites(pid int, perSecond string) error {
	dir, err := groupOf(pid, "blkio")
	if err != nil {
		return err
	}
	disk, err := diskBelow(".")
	if err != nil {
		return err
	}
	old := filepath.Join(dir, "blkio.throttle.write_iops_device")
	if _, err := os.Stat(old); err == nil {
		return os.WriteFile(old, []byte(disk+" "+perSecond), 0)
	}
	return os.WriteFile(filepath.Join(dir, "io.max"), []byte(disk+" wiops="+perSecond), 0)
}

// diskBelow is the number of the disk, no partition, that a file lies on.
func diskBelow(name string) (string, error) {
	var s unix.Stat_t
	if err := unix.Stat(name, &s); err != nil {
		return "", err
	}
	number := fmt.Sprintf("%d:%d", unix.Major(s.Dev), unix.Minor(s.Dev))
	dir, err := filepath.EvalSymlinks("/sys/dev/block/" + number)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, "partition")); err != nil {
		return number, nil
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "dev"))
	return string(bytes.TrimSpace(text)), err
}

// limitRate limits how much the container can receive, with a queue before the
// host's end of its veth.
func limitRate(pid int, rate string) error {
	other := 0
	err := netns.In(pid, func() error {
		link, err := netlink.LinkByName("eth0")
		if err == nil {
			other = link.Attrs().ParentIndex
		}
		return err
	})
	if err != nil {
		return err
	}
	outer, err := netlink.LinkByIndex(other)
	if err != nil {
		return err
	}
	out, err := exec.Command("tc", "qdisc", "add", "dev", outer.Attrs().Name, "root", "tbf", "rate", rate, "burst", "64kb",
		"limit", "256kb").CombinedOutput()
	if err != nil {
		return fmt.Errorf("tc: %w: %s", err, out)
	}
	return nil
}
