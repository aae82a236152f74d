package timeline

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/kernel/recording"
)

// Roles that the analysis itself gives.
const (
	roleTare    Role = "tare"
	roleProgram Role = "program" // of the container
	roleHook    Role = "hook"    // of the container, called by its runtime
)

// Roles of what makes the network of a container. The name of the program follows.
const (
	rolePlugin  Role = "CNI plugin"
	roleNetwork Role = "network plugin" // of Podman
)

// runtimes are the programs that make one container from a bundle. They execute themselves again as the
// container's first process.
var runtimes = []string{"runc", "crun", "youki", "runsc", "kata-runtime", "runj"}

// forking are those that do not: the first process is a fork.
var forking = []string{"crun", "youki"}

// roles are those of programs whose role is not their name.
var roles = []struct {
	role  Role
	names []string // with a * at the end: what begins so
}{
	{"shim", []string{"containerd-shim*"}},
	{"iptables", []string{"iptables*", "ip6tables*", "xtables-*", "ebtables*", "arptables*"}},
	{"nft", []string{"nft"}},
	{"systemd", []string{"systemd*"}},
	{roleNetwork, []string{"netavark", "aardvark-dns"}},
}

// roleOfProgram is the role of a program by its name and its file; the name itself if no rule has it.
func roleOfProgram(name, file string) (role Role, ruled bool) {
	for _, r := range roles {
		if !slices.ContainsFunc(r.names, func(n string) bool { return fitsName(n, name) }) {
			continue
		}
		if r.role == roleNetwork {
			return r.role + " " + Role(name), true
		}
		return r.role, true
	}
	if isPlugin(file) {
		return rolePlugin + " " + Role(name), true
	}
	return Role(name), slices.Contains(runtimes, name)
}

// isPlugin reports whether a file lies where CNI plugins do: in /opt/cni/bin, /usr/lib/cni or /usr/libexec/cni. Their
// names, such as bridge, can mean anything.
func isPlugin(file string) bool {
	return slices.Contains(strings.Split(path.Dir(file), "/"), "cni")
}

func fitsName(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

// executed is the name and the role of a program that a process of a lane executes.
func (h *history) executed(e *recording.Event, before *lane) (name string, role Role) {
	forked := before.Process != e.Process
	of, again := h.again(e, before)
	switch {
	case again && slices.Contains(runtimes, of.Name) && (forked || of.Role == initOf(of.Name)):
		return of.Name, initOf(of.Name)
	case again && slices.Contains(runtimes, of.Name):
		return of.Name, of.Role
	case again:
		return of.Name, Role(strings.TrimSuffix(string(of.Role), suffixAgain)) + suffixAgain
	}
	name = path.Base(e.Text)
	role, ruled := roleOfProgram(name, e.Text)
	if forked && !ruled && isRuntime(before.Role) {
		role = roleHook
	}
	return name, role
}

// suffixAgain ends the role of a program that another process executes once more by itself.
const suffixAgain = ", again"

// namePrograms tells programs in containers from hooks, which a runtime starts as well: the program is what the
// container's first process executes last. For a runtime whose first process is a fork of its own, and executes nothing
// before, it is what a fork executes last that has entered the container.
func (h *history) namePrograms() {
	last := map[int]int{} // by the lane of the runtime or its init
	for i := range h.lanes {
		l := &h.lanes[i]
		if l.Role != roleHook || l.Parent < 0 {
			continue
		}
		by := string(h.lanes[l.Parent].Role)
		if strings.HasSuffix(by, suffixInit) || slices.Contains(forking, by) && h.entered(l) {
			last[l.Parent] = i
		}
	}
	for _, i := range last {
		h.lanes[i].Role = roleProgram
	}
}

// entered reports whether the process of a lane changed namespaces or its root before it executed the program.
func (h *history) entered(l *lane) bool {
	t := h.threads[l.Process]
	return t != nil && slices.ContainsFunc(t.calls, func(c call) bool {
		return c.began < l.began && slices.Contains([]string{"setns", "unshare", "pivot_root", "mount"}, c.name)
	})
}

// suffixInit ends the role of a runtime that executes itself as a container's first process.
const suffixInit = " init"

func initOf(runtime string) Role { return Role(runtime) + suffixInit }

func isRuntime(r Role) bool {
	return slices.Contains(runtimes, strings.TrimSuffix(string(r), suffixInit))
}

// again finds the lane whose program is executed again, by a name such as /proc/self/exe.
func (h *history) again(e *recording.Event, before *lane) (*lane, bool) {
	rest, ok := strings.CutPrefix(e.Text, "/proc/")
	if !ok {
		return before, strings.HasPrefix(e.Text, "/dev/fd/") || strings.HasPrefix(e.Text, "memfd:")
	}
	who, what, _ := strings.Cut(rest, "/")
	if what != "exe" && !strings.HasPrefix(what, "fd/") {
		return nil, false
	}
	if pid, err := strconv.Atoi(who); err == nil {
		if of := h.lastLane(pid); of != nil {
			return of, true
		}
	}
	return before, true
}
