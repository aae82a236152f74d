package netdev

import (
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestAlias(t *testing.T) {
	for alias, want := range map[string]Device{
		Device{Run: "run-1", Driver: "docker"}.alias(): {Run: "run-1", Driver: "docker"},
		"":                              {},
		"uplink":                        {},
		"tare.run=run-1":                {},
		"tare.run= driver=docker":       {},
		"tare.run=../x driver=docker":   {},
		"tare.run=run-1 driver=a b":     {},
		" tare.run=run-1 driver=docker": {},
	} {
		run, driver, ok := parseAlias(alias)
		if ok != (want != Device{}) || ok && (run != want.Run || driver != want.Driver) {
			t.Errorf("parseAlias(%q) = %q, %q, %v; want %+v", alias, run, driver, ok, want)
		}
	}
}

func TestFree(t *testing.T) {
	prefix := netip.MustParsePrefix
	for _, test := range []struct {
		want  string // empty where there is none
		taken []string
	}{
		{"10.213.0.0/22", nil},
		{"10.213.0.0/22", []string{"192.0.2.0/24", "172.17.0.0/16"}},
		{"10.213.4.0/22", []string{"10.213.0.77/32"}},
		{"10.213.16.0/22", []string{"10.213.0.0/20"}},
		{"", []string{"10.0.0.0/8"}},
		{"", []string{"10.213.0.0/16"}},
	} {
		var taken []netip.Prefix
		for _, t := range test.taken {
			taken = append(taken, prefix(t))
		}
		got, err := free(taken)
		if (err == nil) != (test.want != "") || err == nil && got != prefix(test.want) {
			t.Errorf("free(%v) = %v, %v; want %s", test.taken, got, err, test.want)
		}
	}
}

// A device is found by its run, and removed for that run alone.
func TestParent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making an interface takes root")
	}
	d, err := Parent("test-netdev", "nothing")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Remove(); err != nil {
			t.Error(err)
		}
	})
	link, err := netlink.LinkByName(d.Name)
	if err != nil || link.Attrs().OperState != netlink.OperUp {
		t.Errorf("the interface is %+v, %v; want it up", link, err)
	}
	has := func(driver string) bool {
		all, err := List(driver)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Contains(all, d)
	}
	if !has("nothing") || has("docker") {
		t.Errorf("listed for its driver: %v, for another: %v", has("nothing"), has("docker"))
	}
	other := d
	other.Run = "test-other"
	if err := other.Remove(); err == nil {
		t.Error("it was removed for another run")
	}
	for range 2 {
		if err := d.Remove(); err != nil {
			t.Errorf("Remove: %v", err)
		}
	}
	if has("nothing") {
		t.Error("it is there after Remove")
	}
}

// What is free is what no route of this machine covers.
func TestSubnet(t *testing.T) {
	p, err := Subnet()
	if err != nil {
		t.Fatal(err)
	}
	taken, err := usedPrefixes()
	if err != nil || len(taken) == 0 {
		t.Fatalf("no networks, not even loopback's: %v", err)
	}
	if !slices.ContainsFunc(taken, func(t netip.Prefix) bool { return t.Contains(netip.MustParseAddr("127.0.0.1")) }) {
		t.Errorf("%v lacks loopback's", taken)
	}
	if slices.ContainsFunc(taken, p.Overlaps) {
		t.Errorf("%v is taken: %v", p, taken)
	}
}
