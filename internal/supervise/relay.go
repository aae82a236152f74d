package supervise

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

// relaysSince finds the programs that pass packets on for the container of a first
// process. They started after tare began to start it. In that time, other containers may
// have got relays of their own, which do not count.
func relaysSince(began uint64, first int) (pids []int) {
	all, err := proc.All("/")
	if err != nil {
		return nil
	}
	for _, one := range all {
		if one.Start < began {
			continue
		}
		name, _ := read(one.PID, "comm", 64) // it may have ended
		if slices.Contains(relays(), strings.TrimSpace(name)) && servesOf(one.PID, first) {
			pids = append(pids, one.PID)
		}
	}
	return pids
}

// relays lists the programs with which engines pass packets between the host and a
// container, by name as the kernel truncates it.
func relays() []string {
	return []string{"docker-proxy", "rootlessport", "rootlessport-ch", "slirp4netns", "pasta", "pasta.avx2", "gvproxy"}
}

// servesOf reports whether a relay passes packets to an address of a process. If the
// relay's arguments do not name an address, it counts as the process's.
func servesOf(relay, first int) bool {
	args, err := read(relay, "cmdline", 64<<10)
	if err != nil {
		return false // it has ended
	}
	to, ok := containerAddress(strings.Split(args, "\x00"))
	if !ok {
		return true
	}
	local, err := read(first, "net/fib_trie", 4<<20)
	return err != nil || strings.Contains(local, "|-- "+to.String()+"\n")
}

// containerAddress returns the address to which docker-proxy passes packets, from its
// arguments.
func containerAddress(args []string) (netip.Addr, bool) {
	i := slices.Index(args, "-container-ip")
	if i < 0 || i+1 == len(args) {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(args[i+1])
	return a, err == nil && a.Is4() // fib_trie has IPv4 addresses only
}

// read reads a file of a process.
func read(pid int, name string, most int) (string, error) {
	text, err := proc.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name), most)
	return string(text), err
}

// relayed returns the CPU time that the relays used, in seconds.
func (p *Process) relayed() float64 {
	sum := 0.0
	for _, pid := range p.relays {
		if t, err := proc.Count("/", pid); err == nil {
			sum += t.UserTime + t.SystemTime
		}
	}
	return sum
}
