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
		if slices.Contains(relays(), proc.Name(one.PID)) && servesOf(one.PID, first) {
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
	args := proc.Args(relay)
	if args == nil {
		return false // it has ended
	}
	// Docker-proxy says it. The table has no addresses but those of IPv4.
	to, err := netip.ParseAddr(proc.ArgAfter(args, "-container-ip"))
	if err != nil || !to.Is4() {
		return true
	}
	local, err := proc.ReadFile(filepath.Join("/proc", strconv.Itoa(first), "net/fib_trie"), 4<<20)
	return err != nil || strings.Contains(string(local), "|-- "+to.String()+"\n")
}

// relayed returns the CPU time that the relays used, in seconds.
func (p *Process) relayed() float64 {
	sum := 0.0
	for _, pid := range p.relays {
		if t, err := proc.TallyOf("/", pid); err == nil {
			sum += t.UserTime + t.SystemTime
		}
	}
	return sum
}
