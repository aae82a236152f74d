package host

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// Each check below looks at one thing. A zero Finding means that the machine does not have this
// thing, or does not tell.

func (m *machine) privileges() Finding {
	if m.facts.Privileged {
		return good("privileges", "tare runs as root")
	}
	return note("privileges", "run tare as root to use engine floor and OCI runtimes, and to drop caches",
		"tare runs as an ordinary user")
}

// container compares tare's PID namespace with the machine's first one, whose number is part of the
// kernel's ABI. Files that engines leave in a root file system (/.dockerenv) prove nothing, because
// machines boot from such file systems too.
func (m *machine) container() Finding {
	const initial = "pid:[4026531836]"
	ns, err := os.Readlink(m.path("proc/self/ns/pid"))
	if err != nil || ns == initial {
		return Finding{}
	}
	return disturb("container", "run tare on the host itself",
		"tare itself runs in a container, and so does everything that it starts")
}

func (m *machine) cgroups() Finding {
	h, err := cgroup.Detect(m.root)
	if err != nil {
		return note("cgroup", "mount the cgroup2 file system on /sys/fs/cgroup", "no control groups: %v", err)
	}
	if err := h.Writable(); err != nil {
		return note("cgroup", "run tare as root on the host: limits and counters of containers need control groups",
			"control groups %s, but this process may not use them", h.Version())
	}
	if h.Version() != cgroup.V2 {
		return note("cgroup", "boot with systemd.unified_cgroup_hierarchy=1 to use control groups v2, the default of "+
			"newer systems",
			"control groups %s: each start of a container takes longer (one move per controller), and disk bytes may "+
				"not be counted", h.Version())
	}
	return good("cgroup", "control groups v2")
}

func (m *machine) cpus() Finding {
	const name, hint = "cpus", "use a machine with four or more CPUs for experiments that generate load"
	online := listLength(m.text("sys/devices/system/cpu/online"))
	switch n := m.facts.CPUs; {
	case n == 0:
		return Finding{}
	case n == 1:
		return disturb(name, hint, "one CPU: tare, the engine and the container compete for it")
	case n < 4:
		return note(name, hint, "%d CPUs: a load generator and the server under load share them", n)
	case n < online:
		return note(name, "", "tare may use %d of %d CPUs", n, online)
	default:
		return good(name, "%d CPUs", n)
	}
}

func (m *machine) virtualization() Finding {
	if v := m.facts.Virtual; v != "" {
		return note("virtualization", "", "a virtual machine (%s): other virtual machines on the same host can affect "+
			"the results", v)
	}
	return good("virtualization", "no sign of a hypervisor")
}

func (m *machine) steal() Finding {
	stolen := m.delta(proc.StealTime)
	total := stolen
	for f := range proc.StealTime {
		total += m.delta(f)
	}
	// The kernel counts in ticks of 10 ms, so one tick in a short time is noise.
	share := stolen / total
	if m.since == "" || !(total > 0) || m.facts.Virtual == "" && stolen == 0 {
		return Finding{}
	}
	if share > 0.01 && stolen > 0.02 {
		return disturb("steal", "use a machine with dedicated CPUs, or measure at a quieter hour; more blocks help too",
			"the hypervisor took %.1f %% of the CPU time %s", 100*share, m.since)
	}
	return good("steal", "the hypervisor took %.1f %% of the CPU time %s", 100*share, m.since)
}

func (m *machine) load() Finding {
	load, cpus := m.last[proc.Load1], float64(max(m.facts.CPUs, 1))
	switch {
	case math.IsNaN(load):
		return Finding{}
	case load > cpus/2:
		return disturb("load", "stop other work, or wait until the load average is below half the number of CPUs",
			"load average %.2f on %d CPUs", load, m.facts.CPUs)
	default:
		return good("load", "load average %.2f", load)
	}
}

func (m *machine) cpuPressure() Finding {
	if !m.exists("proc/pressure/cpu") {
		return note("pressure", "boot with psi=1, on a kernel with CONFIG_PSI",
			"the kernel does not count pressure, so reports cannot show it as a reason")
	}
	return m.pressure(pressureCheck{
		"cpu", "some", 5, "at least one thread waited for a CPU",
		"stop other work on this machine",
	})
}

func (m *machine) memoryPressure() Finding {
	return m.pressure(pressureCheck{"memory", "full", 1, "every thread waited for memory", "reduce memory use: programs " +
		"wait while the kernel frees memory"})
}

func (m *machine) ioPressure() Finding {
	return m.pressure(pressureCheck{
		"io", "full", 5, "every thread waited for a disk", "stop programs that use the disks, " +
			"or put tare's files on another disk",
	})
}

// A pressureCheck is a kind of pressure, and the share of the last ten seconds, in per cent, from which
// it disturbs.
type pressureCheck struct {
	resource, kind string // file and line
	most           float64
	text, hint     string
}

func (m *machine) pressure(s pressureCheck) Finding {
	name := s.resource + "-pressure"
	share, ok := average10(m.text("proc/pressure/"+s.resource), s.kind)
	switch {
	case !ok:
		return Finding{}
	case share > s.most:
		return disturb(name, s.hint, "%s in %.1f %% of the last 10 s", s.text, share)
	default:
		return good(name, "%s in %.1f %% of the last 10 s", s.text, share)
	}
}

// average10 finds avg10 on the line of a pressure file that begins with kind.
func average10(text, kind string) (float64, bool) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != kind {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimPrefix(f[1], "avg10="), 64)
		return n, err == nil
	}
	return 0, false
}

func (m *machine) governor() Finding {
	switch g := m.facts.Governor; g {
	case "":
		return note("governor", "", "this machine does not show or control the CPUs' frequency")
	case "performance":
		return good("governor", "governor performance")
	default:
		return disturb("governor", "as root: cpupower frequency-set -g performance",
			"governor %s: the CPUs' frequency follows the load, so short containers may run on a slow CPU", g)
	}
}

func (m *machine) boost() Finding {
	for _, s := range []struct{ file, on, off string }{
		{"sys/devices/system/cpu/intel_pstate/no_turbo", "0", "1"},
		{"sys/devices/system/cpu/cpufreq/boost", "1", "0"},
	} {
		switch m.text(s.file) {
		case s.on:
			return disturb("boost", fmt.Sprintf("as root: echo %s > /%s", s.off, s.file),
				"frequency boost is on: the CPUs' speed depends on their temperature and on the load of other CPUs")
		case s.off:
			return good("boost", "frequency boost is off")
		}
	}
	return Finding{}
}

func (m *machine) smt() Finding {
	switch m.text("sys/devices/system/cpu/smt/active") {
	case "1":
		return note("smt", "as root: echo off > /sys/devices/system/cpu/smt/control",
			"two hardware threads share each core, so other work slows measurements more")
	case "0":
		return good("smt", "each hardware thread has a core of its own")
	}
	return Finding{}
}

func (m *machine) throttling() Finding {
	files := m.glob("sys/devices/system/cpu/cpu*/thermal_throttle/core_throttle_count")
	var total float64
	for _, file := range files {
		if n, ok := m.number(file); ok {
			total += n
		}
	}
	switch {
	case len(files) == 0:
		return Finding{}
	case total > 0:
		return note("throttling", "improve the cooling, and do not trust a run during which this number grows",
			"the CPUs were slowed down %.0f times because of heat since the machine started", total)
	default:
		return good("throttling", "the CPUs were never slowed down because of heat")
	}
}

func (m *machine) battery() Finding {
	for _, file := range m.glob("sys/class/power_supply/*/online") {
		dir := strings.TrimSuffix(file, "online")
		if m.text(dir+"type") != "Mains" {
			continue
		}
		if m.text(file) == "0" {
			return disturb("battery", "plug the machine in", "the machine runs on its battery and saves power")
		}
		return good("battery", "the machine is plugged in")
	}
	return Finding{}
}

func (m *machine) clock() Finding {
	const name = "clock"
	switch c := m.facts.Clock; c {
	case "":
		return Finding{}
	case "tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "stp", "timebase", "riscv_clocksource":
		return good(name, "clock source %s", c)
	case "hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies":
		return disturb(name, "boot with tsc=reliable if the processor's counter can be trusted; dmesg tells why the "+
			"kernel does not trust it",
			"clock source %s: reading the time takes a microsecond or more, in tare and in the measured programs", c)
	default:
		return note(name, "", "clock source %s", c)
	}
}

func (m *machine) memory() Finding {
	const name, small = "memory", 512 << 20
	free := m.last[proc.MemoryAvailable]
	switch {
	case math.IsNaN(free) || m.facts.Memory == 0:
		return Finding{}
	case free < small || free < float64(m.facts.Memory)/10:
		return disturb(name, "free memory, so that files which are read repeatedly stay cached",
			"%s of %s memory available", gib(free), gib(float64(m.facts.Memory)))
	default:
		return good(name, "%s of %s memory available", gib(free), gib(float64(m.facts.Memory)))
	}
}

func (m *machine) swap() Finding {
	info := m.text("proc/meminfo")
	if value(info, "SwapTotal") == "" {
		return Finding{}
	}
	total := kilobytes(value(info, "SwapTotal"))
	used := total - kilobytes(value(info, "SwapFree"))
	switch {
	case total == 0:
		return good("swap", "no swap")
	case used > 16<<20: // after days a little is always in use
		return disturb("swap", "if there is enough memory, as root: swapoff -a; then swapon -a",
			"%s of %s swap in use, swappiness %s", gib(float64(used)), gib(float64(total)), m.text("proc/sys/vm/swappiness"))
	default:
		return good("swap", "swap is not in use")
	}
}

func (m *machine) hugePages() Finding {
	_, rest, ok := strings.Cut(m.text("sys/kernel/mm/transparent_hugepage/enabled"), "[")
	mode, _, _ := strings.Cut(rest, "]")
	switch {
	case !ok:
		return Finding{}
	case mode == "always":
		return note("huge-pages", "compare with: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
			"transparent huge pages for every program: the kernel may merge memory in the background")
	default:
		return good("huge-pages", "transparent huge pages: %s", mode)
	}
}

func (m *machine) numa() Finding {
	nodes := listLength(m.text("sys/devices/system/node/online"))
	if nodes < 2 {
		return Finding{}
	}
	return note("numa", "keep all cells on one memory node with a limit on the CPU set",
		"%d memory nodes: work is slower if its memory is on another node", nodes)
}

// space checks the file system of a directory that the run will write to.
func space(dir string) Finding {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return note("disk-space", "", "disk space of %s: %v", dir, err)
	}
	free, total := float64(fs.Bavail)*float64(fs.Bsize), float64(fs.Blocks)*float64(fs.Bsize)
	return spaceFinding(dir, free, total)
}

func spaceFinding(dir string, free, total float64) Finding {
	const small = 1 << 30
	if free < small || free < total/20 {
		return disturb("disk-space", "free some space: images and results need it, and a full file system is slow",
			"%s of %s free for %s", gib(free), gib(total), dir)
	}
	return good("disk-space", "%s of %s free for %s", gib(free), gib(total), dir)
}

// gib formats a number of bytes for people. Package unit does it better, but packages that read the
// machine may not import it.
func gib(n float64) string { return fmt.Sprintf("%.1f GiB", n/(1<<30)) }
