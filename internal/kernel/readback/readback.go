// Package readback asks the kernel what was applied to a process that an
// engine has made, and says it in the words of bench.Applied. Drivers read
// here what they would otherwise have to take their engine's word for.
//
// Processes, and threads, go by their numbers in this process's /proc. Where
// there is none of that number, errors.Is(err, fs.ErrNotExist); one that ends
// while it is read, or waits to be reaped, can mean other errors. Nothing here
// changes anything.
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

// Process reads what the kernel knows of a process without its control groups:
// Network, Storage, Mounts, which are those of asked that are there, and
// Security. Image, argv, limits and the rest are left empty. See FileSystems
// for root.
//
// Network is "host" in this process's own network namespace, "none" in another
// one without an interface but loopback, and else says how many there are,
// such as "own, with 1 interfaces", which is no word of a Spec.
//
// Security compares the process with this one. Seccomp is "unconfined" if both
// are filtered or neither is, else "filtered". UserNS means another user
// namespace than this process's. Privileged is a process in the same one whose
// bounding set has CAP_SYS_ADMIN and all that this process's has.
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

// SameNamespace reports whether two processes share a namespace, of a kind
// that is named as in /proc/PID/ns: "net", "user", "mnt" …
func SameNamespace(kind string, a, b int) (bool, error) {
	first, err := os.Readlink(file(a, "ns/"+kind))
	if err != nil {
		return false, err
	}
	second, err := os.Readlink(file(b, "ns/"+kind))
	return err == nil && first == second, err
}

// Interfaces returns how many network interfaces the namespace of a process
// has, up or down, loopback not counted.
func Interfaces(pid int) (int, error) {
	text, err := proc.ReadFile(file(pid, "net/dev"), 1<<20)
	return countInterfaces(text), err
}

// countInterfaces reads /proc/PID/net/dev: below two lines of heading, one
// line each.
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
