package oci

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/proc"
)

// procFile reads a file of a process, "self" or a number.
func procFile(pid, name string) ([]byte, error) {
	const limit = 8 << 20 // a machine can have thousands of mounts
	return proc.ReadFile(filepath.Join("/proc", pid, name), limit)
}

// status is what is needed of /proc/PID/status.
type status struct {
	noNewPrivs bool
	seccomp    int // 0 off, 1 strict, 2 filter
	bounding   uint64
}

func statusOf(pid string) (status, error) {
	text, err := procFile(pid, "status")
	if err != nil {
		return status{}, err
	}
	return parseStatus(text)
}

func parseStatus(text []byte) (status, error) {
	var s status
	for line := range bytes.Lines(text) {
		key, value, _ := strings.Cut(string(line), ":")
		value = strings.TrimSpace(value)
		var err error
		switch key {
		case "NoNewPrivs":
			s.noNewPrivs = value == "1"
		case "Seccomp":
			s.seccomp, err = strconv.Atoi(value)
		case "CapBnd":
			s.bounding, err = strconv.ParseUint(value, 16, 64)
		}
		if err != nil {
			return status{}, fmt.Errorf("status: %s: %w", key, err)
		}
	}
	return s, nil
}

// interfaces counts the network interfaces in the text of /proc/PID/net/dev
// that are not loopback: below two lines of heading, one line each.
func interfaces(text []byte) int {
	n := 0
	for line := range bytes.Lines(text) {
		name, _, ok := bytes.Cut(line, []byte(":"))
		if ok && string(bytes.TrimSpace(name)) != "lo" {
			n++
		}
	}
	return n
}
