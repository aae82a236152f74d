package host

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

func TestNames(t *testing.T) {
	for list, want := range map[string]int{
		"": 0, "0": 1, "0-3": 4, "0-3,8,10-11": 7, "x": 0, "3-1": 0, "0-99999999999": 0,
	} {
		if got := listLength(list); got != want {
			t.Errorf("listLength(%q) = %d, want %d", list, got, want)
		}
	}
	for info, want := range map[string]string{
		"model name\t: Fast: 3 GHz\n": "Fast: 3 GHz", "Model\t\t: Board 4\n": "Board 4", "": "",
		"CPU implementer\t: 0x99\nCPU part\t: 0x001\n": "ARM implementer 0x99 part 0x001",
		"CPU implementer\t: 0xc0\nCPU part\t: 0xac3\n": "Ampere-1",
	} {
		if got := cpuModel(info); got != want {
			t.Errorf("cpuModel(%q) = %q, want %q", info, got, want)
		}
	}
}

func TestSpace(t *testing.T) {
	for free, want := range map[float64]Status{100 << 30: Good, 10 << 20: Disturb, 2 << 30: Disturb} {
		if got := spaceFinding("/d", free, 200<<30); got.Status != want {
			t.Errorf("%v free: %+v, want %s", free, got, want)
		}
	}
}

func TestVirtual(t *testing.T) {
	for _, test := range []struct{ vendor, product, flags, clocks, want string }{
		{"QEMU", "Standard PC (Q35 + ICH9, 2009)", "", "", "kvm"},
		{"Amazon EC2", "m5.large", "", "", "amazon"},
		{"Amazon EC2", "m5.metal", "", "", ""},
		{"Amazon EC2", "u-6tb1.metal-48xl", "", "", ""},
		{"Microsoft Corporation", "Virtual Machine", "", "", "hyperv"},
		{"Microsoft Corporation", "Surface Pro", "", "", ""},
		{"", "", "fpu hypervisor", "tsc kvm-clock", "kvm"},
		{"", "", "fpu hypervisor", "tsc", "unknown"},
		{"", "", "fpu", "tsc", ""},
	} {
		root := t.TempDir()
		for name, text := range map[string]string{
			"sys/class/dmi/id/sys_vendor": test.vendor, "sys/class/dmi/id/product_name": test.product,
			clocksource + "available_clocksource": test.clocks,
		} {
			name = filepath.Join(root, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
				os.WriteFile(name, []byte(text+"\n"), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		if got := virtual(tree(root), "flags\t\t: "+test.flags+"\n"); got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

func TestSteal(t *testing.T) {
	m := machine{since: "in the last 1s", last: unknownSnapshot()}
	if got := m.steal(); got.Name != "" {
		t.Errorf("without counts: %+v", got)
	}
	for f := proc.UserTime; f <= proc.StealTime; f++ {
		m.first[f], m.last[f] = 100, 100
	}
	m.last[proc.UserTime], m.last[proc.IdleTime] = 100.8, 101
	if got := m.steal(); got.Name != "" {
		t.Errorf("nothing stolen on bare metal: %+v", got)
	}
	m.last[proc.StealTime] = 100.2
	if got := m.steal(); got.Status != Disturb || !strings.Contains(got.Text, "10.0 % of the CPU time in the last 1s") {
		t.Errorf("0.2 of 2 s stolen: %+v", got)
	}
	m.since = "" // what was stolen before tare came says nothing of now
	if got := m.steal(); got.Name != "" {
		t.Errorf("without a look: %+v", got)
	}
	m.since = "in the last 1s"
	m.last[proc.StealTime] = 100.01 // one tick
	if got := m.steal(); got.Status != Good {
		t.Errorf("one tick stolen: %+v", got)
	}
}

// FuzzParse feeds every parser with the same text: none may panic, and no
// count may become negative.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"model name\t: Fast\nflags\t\t: fpu hypervisor\n", "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n",
		"PRETTY_NAME=\"Debian\"\n", "Uid:\t0\t0\t0\t0\nCpus_allowed_list:\t0-3,8\n", "MemTotal: 12 kB\n", "0-3,8-11",
		"some avg10=1.17 avg60=1.20 avg300=0.84 total=108648557\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cpuModel(text)
		hasFlag(text, "hypervisor")
		effectiveUser(text)
		if n := listLength(text); n < 0 {
			t.Errorf("listLength = %d", n)
		}
		if n := kilobytes(value(text, "MemTotal")); n < 0 {
			t.Errorf("kilobytes = %d", n)
		}
		if n, ok := average10(text, "some"); ok && math.IsNaN(n) && !strings.Contains(strings.ToLower(text), "nan") {
			t.Errorf("average10 = %v", n)
		}
	})
}
