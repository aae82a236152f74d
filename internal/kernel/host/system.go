package host

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// disks lists the machine's disks, real and virtual, each with size, kind and I/O scheduler, such as
// "vda 40 GiB SSD none". Devices that are built on others, such as loop devices and RAID, are not in it, and
// neither are those that can be taken out, such as a drive for CDs.
func disks(t tree) string {
	var all []string
	for _, device := range t.glob("sys/block/*/device") {
		dir := path.Dir(device)
		if t.text(dir+"/removable") == "1" {
			continue
		}
		words := []string{path.Base(dir)}
		if sectors, ok := t.number(dir + "/size"); ok && sectors > 0 {
			words = append(words, fmt.Sprintf("%.0f GiB", sectors*512/(1<<30)))
		}
		switch t.text(dir + "/queue/rotational") {
		case "0":
			words = append(words, "SSD")
		case "1":
			words = append(words, "rotating")
		}
		if s := selected(t.text(dir + "/queue/scheduler")); s != "" {
			words = append(words, s)
		}
		all = append(all, strings.Join(words, " "))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// selected returns the word in brackets of a list such as "[none] mq-deadline"; a list of one word may
// have none.
func selected(list string) string {
	if _, rest, ok := strings.Cut(list, "["); ok {
		word, _, _ := strings.Cut(rest, "]")
		return word
	}
	if !strings.Contains(list, " ") {
		return list
	}
	return ""
}

// mitigations lists the weaknesses of the CPUs that the kernel mitigates, or that it leaves, in the
// kernel's words up to the first comma or semicolon, such as "meltdown: PTI, spectre_v2: Retpolines".
func mitigations(t tree) string {
	var all []string
	for _, file := range t.glob("sys/devices/system/cpu/vulnerabilities/*") {
		state := t.text(file)
		if state == "" || state == "Not affected" {
			continue
		}
		state = strings.TrimPrefix(state, "Mitigation: ")
		if i := strings.IndexAny(state, ",;("); i > 0 {
			state = strings.TrimSpace(state[:i])
		}
		all = append(all, path.Base(file)+": "+state)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// security lists the kernel's active security modules. Without securityfs, it lists those of the two
// large ones that show themselves elsewhere.
func security(t tree) string {
	if list := t.text("sys/kernel/security/lsm"); list != "" {
		return list
	}
	var all []string
	if t.text("sys/module/apparmor/parameters/enabled") == "Y" {
		all = append(all, "apparmor")
	}
	switch t.text("sys/fs/selinux/enforce") {
	case "0":
		all = append(all, "selinux (permissive)")
	case "1":
		all = append(all, "selinux")
	}
	return strings.Join(all, ",")
}

// The checks of these facts are notes: they belong to the machine, and explain differences between
// machines.

func (m *machine) disks() Finding {
	if m.facts.Disks == "" {
		return Finding{}
	}
	return note("disks", "", "%s", m.facts.Disks)
}

func (m *machine) mitigations() Finding {
	if m.facts.Mitigations == "" {
		return Finding{}
	}
	return note("mitigations", "", "weaknesses of the CPUs: %s", m.facts.Mitigations)
}

func (m *machine) security() Finding {
	if m.facts.Security == "" {
		return Finding{}
	}
	return note("security", "", "security modules: %s", strings.ReplaceAll(m.facts.Security, ",", ", "))
}
