package readback

import (
	"bytes"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// A Status is the part of /proc/PID/status that tare uses. Fields that a kernel does not have are
// zero.
type Status struct {
	// Numbers are the process's numbers, from the one in this process's /proc to the one in its
	// innermost PID namespace.
	Numbers    []int
	NoNewPrivs bool
	Seccomp    int          // 0 off, 1 strict, 2 filter
	Effective  Capabilities // of the process now
	Bounding   Capabilities // that the process and its children can ever get
}

// Capabilities is a set of the kernel's capabilities, as bits by their numbers.
type Capabilities uint64

// Has reports whether a capability, such as unix.CAP_SYS_ADMIN, is in the set.
func (c Capabilities) Has(number int) bool { return c>>number&1 != 0 }

// String tells how many there are and names the first, such as "2 of the kernel's capabilities
// (first: number 24)".
func (c Capabilities) String() string {
	return fmt.Sprintf("%d of the kernel's capabilities (first: number %d)",
		bits.OnesCount64(uint64(c)), bits.TrailingZeros64(uint64(c)))
}

// StatusOf reads the status of a process.
func StatusOf(pid int) (Status, error) {
	name := file(pid, "status")
	text, err := proc.ReadFile(name, 1<<20)
	if err != nil {
		return Status{}, err
	}
	s, err := parseStatus(text)
	if err != nil {
		return Status{}, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

func parseStatus(text []byte) (s Status, err error) {
	for line := range bytes.Lines(text) {
		key, rest, _ := bytes.Cut(line, []byte(":"))
		value := string(bytes.TrimSpace(rest))
		switch string(key) {
		case "NSpid":
			s.Numbers, err = numbers(value)
		case "NoNewPrivs":
			s.NoNewPrivs = value == "1"
		case "Seccomp":
			s.Seccomp, err = strconv.Atoi(value)
		case "CapEff":
			s.Effective, err = capabilities(value)
		case "CapBnd":
			s.Bounding, err = capabilities(value)
		}
		if err != nil {
			return Status{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	return s, nil
}

func numbers(text string) (all []int, err error) {
	for word := range strings.FieldsSeq(text) {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

func capabilities(text string) (Capabilities, error) {
	set, err := strconv.ParseUint(text, 16, 64)
	return Capabilities(set), err
}

// compare returns what protects the host from a process, in comparison with this process.
func compare(theirs, ours Status, sameUser bool) bench.Security {
	s := bench.Security{Seccomp: "unconfined", NoNewPrivileges: theirs.NoNewPrivs, UserNS: !sameUser}
	if theirs.Seccomp != ours.Seccomp {
		s.Seccomp = "filtered"
	}
	s.Privileged = sameUser && theirs.Bounding.Has(unix.CAP_SYS_ADMIN) && ours.Bounding&^theirs.Bounding == 0
	return s
}

// SecuritySeen is an engine's statement about what protects the host from a process, corrected by
// what the kernel says. UserNS is true if the process's user namespace is not this process's.
// Seccomp is "unconfined" without a filter of system calls, and "filtered" if there is a filter
// that was not requested.
func SecuritySeen(pid int, word bench.Security) (bench.Security, error) {
	same, err := SameNamespace("user", pid, Self)
	if err != nil {
		return bench.Security{}, err
	}
	word.Seccomp, word.UserNS = filter(pid, word.Seccomp), !same
	return word, nil
}

// filter is a process's filter of system calls: the engine's statement, unless the kernel
// contradicts it about whether there is a filter.
func filter(pid int, word string) string {
	theirs, err := StatusOf(pid)
	if err != nil {
		return word
	}
	ours, err := StatusOf(Self)
	switch {
	case err != nil:
		return word
	case theirs.Seccomp == 0:
		return "unconfined"
	case word == "unconfined" && theirs.Seccomp != ours.Seccomp:
		return "filtered"
	}
	return word
}

// Unavailable returns the kernel's capabilities that a process can never get. For root it is 0 on most
// machines, but not in a container. An engine that lacks some cannot start a privileged container.
func Unavailable(pid int) (Capabilities, error) {
	s, err := StatusOf(pid)
	if err != nil {
		return 0, err
	}
	text, err := proc.ReadFile("/proc/sys/kernel/cap_last_cap", 64)
	if err != nil {
		return 0, err
	}
	last, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 6)
	if err != nil {
		return 0, fmt.Errorf("/proc/sys/kernel/cap_last_cap: %w", err)
	}
	return (2<<last - 1) &^ s.Bounding, nil
}

// SameNumbers reports whether a process is in the PID namespace of this process's /proc, so that
// the process numbers that it reports mean the same processes here. It is false if the process is
// not visible.
func SameNumbers(pid int) bool {
	s, err := StatusOf(pid)
	return err == nil && len(s.Numbers) == 1
}
