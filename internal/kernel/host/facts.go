package host

import (
	"crypto/sha256"
	"encoding/hex"
	"runtime"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/affinity"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
)

// Facts describes the machine whose file system is at root. Unknown facts stay empty.
func Facts(root string) bench.HostFacts {
	t := tree(root)
	cpuinfo, status := t.text("proc/cpuinfo"), t.text("proc/self/status")
	return bench.HostFacts{
		Hostname:    t.text("proc/sys/kernel/hostname"),
		MachineID:   machineID(t),
		BootID:      t.text("proc/sys/kernel/random/boot_id"),
		OS:          system(t),
		Kernel:      t.text("proc/sys/kernel/osrelease"),
		Arch:        runtime.GOARCH,
		CPU:         cpuModel(cpuinfo),
		CPUs:        listLength(value(status, "Cpus_allowed_list")),
		Memory:      kilobytes(value(t.text("proc/meminfo"), "MemTotal")),
		Cgroup:      cgroupVersion(root),
		Virtual:     virtual(t, cpuinfo),
		Governor:    strings.Join(t.each("sys/devices/system/cpu/cpufreq/policy*/scaling_governor"), ","),
		Clock:       t.text(clocksource + "current_clocksource"),
		Disks:       disks(t),
		Mitigations: mitigations(t),
		Security:    security(t),
		Privileged:  effectiveUser(status) == "0",
	}
}

const clocksource = "sys/devices/system/clocksource/clocksource0/"

// machineID hashes the machine's ID, which is confidential, into one that only distinguishes
// machines. 64 bits are enough for a fleet.
func machineID(t tree) string {
	id := t.text("etc/machine-id")
	if id == "" {
		id = t.text("var/lib/dbus/machine-id")
	}
	if id == "" || id == "uninitialized" {
		return ""
	}
	sum := sha256.Sum256([]byte("tare machine " + id))
	return hex.EncodeToString(sum[:8])
}

func system(t tree) string {
	release := t.text("etc/os-release")
	if release == "" {
		release = t.text("usr/lib/os-release")
	}
	return value(release, "PRETTY_NAME")
}

func cgroupVersion(root string) string {
	h, err := cgroup.Detect(root)
	if err != nil {
		return ""
	}
	return string(h.Version())
}

// effectiveUser is the second of the four user IDs in /proc/PID/status.
func effectiveUser(status string) string {
	if f := strings.Fields(value(status, "Uid")); len(f) > 1 {
		return f[1]
	}
	return ""
}

// kilobytes reads a number that is followed by "kB", as a number of bytes.
func kilobytes(s string) int64 {
	digits, _, _ := strings.Cut(s, " ")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > 1<<50 {
		return 0
	}
	return n << 10
}

// listLength counts the CPUs, or nodes, in a list of the kernel's form, such as "0-3,8". It returns
// 0 for any other text.
func listLength(list string) int {
	all, err := affinity.Parse(list)
	if err != nil {
		return 0
	}
	return len(all)
}

// cpuModel names the processor. x86 tells its name; ARM tells numbers, and
// boards may tell their own name.
func cpuModel(cpuinfo string) string {
	for _, key := range []string{"model name", "cpu model", "cpu", "Processor"} {
		if name := value(cpuinfo, key); name != "" {
			return name
		}
	}
	vendor, part := value(cpuinfo, "CPU implementer"), value(cpuinfo, "CPU part")
	if vendor == "" {
		return value(cpuinfo, "Model")
	}
	if name := armName(vendor, part); name != "" {
		return name
	}
	return "ARM implementer " + vendor + " part " + part
}

// armName names the processors of servers and common boards, by the main ID register as in the
// vendors' manuals.
func armName(vendor, part string) string {
	switch vendor + " " + part {
	case "0x41 0xd03":
		return "ARM Cortex-A53"
	case "0x41 0xd08":
		return "ARM Cortex-A72"
	case "0x41 0xd0b":
		return "ARM Cortex-A76"
	case "0x41 0xd0c":
		return "ARM Neoverse-N1"
	case "0x41 0xd40":
		return "ARM Neoverse-V1"
	case "0x41 0xd49":
		return "ARM Neoverse-N2"
	case "0x41 0xd4f":
		return "ARM Neoverse-V2"
	case "0xc0 0xac3":
		return "Ampere-1"
	case "0xc0 0xac4":
		return "Ampere-1a"
	}
	return ""
}

// virtual names the hypervisor, as far as a guest can tell.
func virtual(t tree, cpuinfo string) string {
	if name := fromFirmware(t); name != "" {
		return name
	}
	if kind := t.text("sys/hypervisor/type"); kind != "" {
		return kind
	}
	if kind := strings.TrimRight(t.text("proc/device-tree/hypervisor/compatible"), "\x00"); kind != "" {
		return strings.TrimPrefix(kind, "linux,")
	}
	if !hasFlag(cpuinfo, "hypervisor") {
		return ""
	}
	// The available clocks reveal the hypervisor.
	clocks := t.text(clocksource + "available_clocksource")
	for _, c := range []struct{ clock, name string }{{"kvm-clock", "kvm"}, {"hyperv", "hyperv"}, {"xen", "xen"}} {
		if strings.Contains(clocks, c.clock) {
			return c.name
		}
	}
	return "unknown"
}

// fromFirmware recognises a hypervisor by the names in its firmware.
func fromFirmware(t tree) string {
	product := t.text("sys/class/dmi/id/product_name")
	names := t.text("sys/class/dmi/id/sys_vendor") + "\n" + product
	if strings.HasSuffix(product, ".metal") || strings.Contains(product, ".metal-") {
		return "" // a cloud's machine without a hypervisor
	}
	for _, known := range []struct{ sign, name string }{
		{"KVM", "kvm"},
		{"QEMU", "kvm"},
		{"OpenStack", "kvm"},
		{"KubeVirt", "kvm"},
		{"Amazon EC2", "amazon"},
		{"Google Compute Engine", "google"},
		{"DigitalOcean", "kvm"},
		{"Hetzner\nvServer", "kvm"},
		{"VMware", "vmware"},
		{"VirtualBox", "virtualbox"},
		{"Microsoft Corporation\nVirtual Machine", "hyperv"},
		{"HVM domU", "xen"},
		{"BHYVE", "bhyve"},
		{"Parallels", "parallels"},
		{"Apple Virtualization", "apple"},
	} {
		if strings.Contains(names, known.sign) {
			return known.name
		}
	}
	return ""
}

func hasFlag(cpuinfo, flag string) bool {
	for f := range strings.FieldsSeq(value(cpuinfo, "flags")) {
		if f == flag {
			return true
		}
	}
	return false
}
