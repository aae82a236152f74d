package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/unit"
)

// facts describe the host, the tool and the engines of a run.
type facts struct {
	host    bench.HostFacts
	tool    string
	engines []bench.EngineInfo
	foreign bool // another program measured, and did not write down everything
}

// A Residue is something that varies though it should not.
type Residue struct {
	What   string   // such as "kernel"
	Values []string // different ones, in order of appearance
	// Groups are, of three groups or more, those that have each value, parallel to Values; nil where one group has
	// several values. Of two groups the values are in the order of the groups.
	Groups [][]string

	at [][]int // where each value was found, parallel to Values
}

// residueOf is what differs among n values, of which some may be unknown; nil if nothing does.
func residueOf(what string, n int, value func(i int) (v string, known bool)) *Residue {
	r := &Residue{What: what}
	for i := range n {
		v, known := value(i)
		if !known {
			continue
		}
		k := slices.Index(r.Values, v)
		if k < 0 {
			k, r.Values, r.at = len(r.Values), append(r.Values, v), append(r.at, nil)
		}
		r.at[k] = append(r.at[k], i)
	}
	if len(r.Values) < 2 {
		return nil
	}
	return r
}

// tell notes which groups have each value; of has the group of each place at which a value was found.
func (r *Residue) tell(of []string) {
	groups, told := make([][]string, len(r.Values)), map[string]bool{}
	for i, at := range r.at {
		for _, k := range at {
			switch name := of[k]; {
			case slices.Contains(groups[i], name):
			case told[name]:
				return
			default:
				groups[i], told[name] = append(groups[i], name), true
			}
		}
	}
	if len(told) > 2 {
		r.Groups = groups
	}
}

// String writes it for people.
func (r Residue) String() string {
	quoted, separator := make([]string, len(r.Values)), ", "
	for i, v := range r.Values {
		if quoted[i] = v; v == "" {
			quoted[i] = "none"
		}
		if r.Groups != nil {
			quoted[i], separator = strings.Join(r.Groups[i], ", ")+": "+quoted[i], "; "
		}
	}
	return r.What + " (" + strings.Join(quoted, separator) + ")"
}

// hostDiffers is what is said of runs of several hosts.
const hostDiffers = "host"

// differences lists the facts that are not the same in all of them. What another program did not write down of its
// machine is unknown, and no difference.
func differences(all []facts) []Residue {
	var out []Residue
	compare := func(what string, get func(f *facts) string) {
		r := residueOf(what, len(all), func(i int) (string, bool) {
			v := get(&all[i])
			return v, v != "" || !all[i].foreign
		})
		if r != nil {
			out = append(out, *r)
		}
	}
	compare(hostDiffers, func(f *facts) string { return HostName(&f.host) })
	compare("boot", func(f *facts) string { return shortID(f.host.BootID) })
	compare("kernel", func(f *facts) string { return f.host.Kernel })
	compare("system", func(f *facts) string { return f.host.OS })
	compare("architecture", func(f *facts) string { return f.host.Arch })
	compare("processor", func(f *facts) string { return f.host.CPU })
	compare("CPUs", func(f *facts) string { return f.known(f.host.CPUs > 0, fmt.Sprint(f.host.CPUs)) })
	compare("memory", func(f *facts) string {
		return f.known(f.host.Memory > 0, unit.Format(float64(f.host.Memory), unit.Bytes))
	})
	compare("cgroup version", func(f *facts) string { return f.host.Cgroup })
	compare("virtualization", func(f *facts) string { return f.host.Virtual })
	compare("governor", func(f *facts) string { return f.host.Governor })
	compare("clock source", func(f *facts) string { return f.host.Clock })
	compare("disks", func(f *facts) string { return f.host.Disks })
	compare("mitigations", func(f *facts) string { return f.host.Mitigations })
	compare("security modules", func(f *facts) string { return f.host.Security })
	compare("privileges", func(f *facts) string { return f.known(!f.foreign, fmt.Sprint(f.host.Privileged)) })
	compare("machine of the containers", func(f *facts) string { return remoteNames(f.engines) })
	compare("tare", func(f *facts) string { return f.known(!f.foreign, f.tool) })
	for _, name := range commonEngines(all) {
		compare(name, func(f *facts) string { return f.engine(name).Version })
		for _, key := range factKeys(all, name) {
			compare(name+" "+key, func(f *facts) string { return f.engine(name).Fact(key) })
		}
	}
	return out
}

// known is a fact, or empty if it is not known.
func (f *facts) known(isKnown bool, fact string) string {
	if !isKnown {
		return ""
	}
	return fact
}

// engine is the engine with this name, which is there.
func (f *facts) engine(name string) *bench.EngineInfo {
	return &f.engines[slices.IndexFunc(f.engines, func(e bench.EngineInfo) bool { return e.Name == name })]
}

// factKeys lists what is known of an engine in any of them, such as its storage driver.
func factKeys(all []facts, engine string) []string {
	var out []string
	for i := range all {
		for _, fact := range all[i].engine(engine).Facts {
			if !slices.Contains(out, fact.Key) {
				out = append(out, fact.Key)
			}
		}
	}
	return out
}

// remoteNames names the other machines on which containers were made.
func remoteNames(engines []bench.EngineInfo) string {
	var all []string
	for _, e := range engines {
		if e.Away == nil {
			continue
		}
		if name := HostName(&e.Away.Host) + " (Linux " + e.Away.Host.Kernel + ")"; !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return strings.Join(all, ", ")
}

// commonEngines lists the engines that are in all of them.
func commonEngines(all []facts) []string {
	var out []string
	for _, e := range all[0].engines {
		missing := func(f facts) bool {
			return !slices.ContainsFunc(f.engines, func(o bench.EngineInfo) bool { return o.Name == e.Name })
		}
		if !slices.ContainsFunc(all, missing) {
			out = append(out, e.Name)
		}
	}
	return out
}

// HostName is what a host is called, which tells hosts of the same name apart. Two names can be one machine.
func HostName(h *bench.HostFacts) string {
	if h.MachineID == "" {
		return h.Hostname
	}
	return h.Hostname + " " + shortID(h.MachineID)
}

// shortID is enough of an identifier to tell it from others.
func shortID(id string) string { return id[:min(8, len(id))] }
