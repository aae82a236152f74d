// Package readback asks the kernel what was really applied to an engine's process, and returns it
// as bench.Applied. Without it, drivers would have to trust their engine's statements.
//
// Processes and threads are identified by their numbers in this process's /proc. If there is no
// such number, errors.Is(err, fs.ErrNotExist). A process that ends while it is read, or a zombie,
// can cause other errors. Nothing here changes anything.
package readback

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// Self stands for the number of this process.
const Self = -1

// file is the name of a process's file in /proc.
func file(pid int, name string) string {
	who := "self"
	if pid != Self {
		who = strconv.Itoa(pid)
	}
	return filepath.Join("/proc", who, name)
}

// Process reads what the kernel knows about a process, except its control groups: Network, Storage,
// Mounts (those of asked that exist) and Security. Image, argv, limits and the rest stay empty. See
// FileSystems for root.
//
// Network is "host" in this process's own network namespace, and "none" in another one that has
// only loopback. Otherwise it tells the number of interfaces, such as "own, with 1 interfaces",
// which is not a value of a Spec.
//
// Security compares the process with this one. Seccomp is "unconfined" if both are filtered or
// neither is, otherwise "filtered". UserNS means a user namespace that is not this process's. A
// process is Privileged if it is in this process's user namespace and its bounding set has
// CAP_SYS_ADMIN and everything in this process's.
func Process(pid int, asked []bench.Mount) (a bench.Applied, root proc.Mount, err error) {
	if root, a.Mounts, err = FileSystems(pid, asked); err != nil {
		return a, root, err
	}
	if a.Network, err = network(pid); err != nil {
		return a, root, err
	}
	a.Security, err = security(pid)
	a.Security.ReadOnly = root.ReadOnly()
	a.Storage = root.Type
	return a, root, err
}

func network(pid int) (string, error) {
	host, err := SameNamespace("net", pid, Self)
	if err != nil {
		return "", err
	}
	n, err := Interfaces(pid)
	if err != nil {
		return "", err
	}
	return networkOf(host, n), nil
}

func networkOf(host bool, interfaces int) string {
	switch {
	case host:
		return "host"
	case interfaces == 0:
		return "none"
	default:
		return fmt.Sprintf("own, with %d interfaces", interfaces)
	}
}

func security(pid int) (s bench.Security, err error) {
	theirs, err := StatusOf(pid)
	if err != nil {
		return s, err
	}
	ours, err := StatusOf(Self)
	if err != nil {
		return s, err
	}
	sameUser, err := SameNamespace("user", pid, Self)
	if err != nil {
		return s, err
	}
	return compare(theirs, ours, sameUser), nil
}

// SameNamespace reports whether two processes share a namespace. The kind is a name in
// /proc/PID/ns: "net", "user", "mnt" …
func SameNamespace(kind string, a, b int) (bool, error) {
	first, err := os.Readlink(file(a, "ns/"+kind))
	if err != nil {
		return false, err
	}
	second, err := os.Readlink(file(b, "ns/"+kind))
	return err == nil && first == second, err
}

// Interfaces returns how many network interfaces the namespace of a process has, up or down,
// without loopback.
func Interfaces(pid int) (int, error) {
	text, err := proc.ReadFile(file(pid, "net/dev"), 1<<20)
	return countInterfaces(text), err
}

// countInterfaces reads /proc/PID/net/dev: two lines of heading, then one line for each interface.
func countInterfaces(text []byte) int {
	n := 0
	for line := range bytes.Lines(text) {
		name, _, ok := bytes.Cut(line, []byte(":"))
		if ok && string(bytes.TrimSpace(name)) != "lo" {
			n++
		}
	}
	return n
}
