package readback

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// Of a process in a container of runc, on Linux 6.18.
const captured = `Name:	sh
Umask:	0022
State:	S (sleeping)
Pid:	10504
NSpid:	10504	1
CapInh:	0000000000000000
CapPrm:	00000000a80425fb
CapEff:	00000000a80425fb
CapBnd:	00000000a80425fb
CapAmb:	0000000000000000
NoNewPrivs:	1
Seccomp:	2
Seccomp_filters:	1
`

func TestParseStatus(t *testing.T) {
	want := Status{Numbers: []int{10504, 1}, NoNewPrivs: true, Seccomp: 2, Effective: 0xa80425fb, Bounding: 0xa80425fb}
	got, err := parseStatus([]byte(captured))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("parseStatus: %v (-want +got):\n%s", err, diff)
	}
	if got, err := parseStatus([]byte("Name:\told\n")); err != nil || !cmp.Equal(got, Status{}) {
		t.Errorf("parseStatus of a kernel that says nothing = %+v, %v", got, err)
	}
	for _, bad := range []string{"Seccomp:\tmaybe\n", "CapBnd:\tall\n", "CapEff:\n", "NSpid:\t1 one\n"} {
		if got, err := parseStatus([]byte(bad)); err == nil {
			t.Errorf("parseStatus(%q) = %+v, want an error", bad, got)
		}
	}
}

func TestCountInterfaces(t *testing.T) {
	const head = "Inter-|   Receive\n face |bytes    packets\n"
	for text, want := range map[string]int{
		"": 0, head: 0, head + "    lo: 0 0\n": 0, head + "    lo: 0 0\n  eth0: 1 2\n": 1, head + "  eth0:1\n wlan0:1\n": 2,
	} {
		if got := countInterfaces([]byte(text)); got != want {
			t.Errorf("countInterfaces(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestNetworkOf(t *testing.T) {
	for _, test := range []struct {
		host       bool
		interfaces int
		want       string
	}{{true, 0, "host"}, {true, 3, "host"}, {false, 0, "none"}, {false, 2, "own, with 2 interfaces"}} {
		if got := networkOf(test.host, test.interfaces); got != test.want {
			t.Errorf("networkOf(%v, %d) = %q, want %q", test.host, test.interfaces, got, test.want)
		}
	}
}

func TestCapabilities(t *testing.T) {
	set := Capabilities(1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_RESOURCE) // 21 and 24
	if !set.Has(unix.CAP_SYS_ADMIN) || set.Has(unix.CAP_SYS_BOOT) {
		t.Errorf("Has of %x is wrong", uint64(set))
	}
	if got, want := set.String(), "2 of the kernel's capabilities (first: number 21)"; got != want {
		t.Errorf("String = %q, want %q", got, want)
	}
}

func TestCompare(t *testing.T) {
	const docker, all = 0xa80425fb, 0x1ffffffffff
	plain := bench.Security{Seccomp: "unconfined"}
	privileged := bench.Security{Seccomp: "unconfined", Privileged: true}
	for name, test := range map[string]struct {
		theirs, ours Status
		other        bool // user namespace
		want         bench.Security
	}{
		"default":                      {Status{Bounding: docker}, Status{Bounding: all}, false, plain},
		"privileged":                   {Status{Bounding: all}, Status{Bounding: all}, false, privileged},
		"all that this process has":    {Status{Bounding: all &^ 1}, Status{Bounding: all &^ 1}, false, privileged},
		"more than this process has":   {Status{Bounding: all}, Status{Bounding: docker}, false, privileged},
		"less than this process has":   {Status{Bounding: all &^ 1}, Status{Bounding: all}, false, plain},
		"as little as this process":    {Status{Bounding: docker}, Status{Bounding: docker}, false, plain},
		"powers over a namespace":      {Status{Bounding: all}, Status{Bounding: all}, true, bench.Security{Seccomp: "unconfined", UserNS: true}},
		"a filter":                     {Status{Seccomp: 2}, Status{}, false, bench.Security{Seccomp: "filtered"}},
		"a filter, like this process":  {Status{Seccomp: 2}, Status{Seccomp: 2}, false, plain},
		"no new privileges":            {Status{NoNewPrivs: true}, Status{}, false, bench.Security{Seccomp: "unconfined", NoNewPrivileges: true}},
		"no new privileges, like this": {Status{NoNewPrivs: true}, Status{NoNewPrivs: true}, false, bench.Security{Seccomp: "unconfined", NoNewPrivileges: true}},
	} {
		if diff := cmp.Diff(test.want, compare(test.theirs, test.ours, !test.other)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAsAppliedTmpfs(t *testing.T) {
	page := int64(os.Getpagesize())
	sized := func(pages int64) string { return fmt.Sprintf("rw,size=%dk,mode=755", pages*page>>10) }
	for name, test := range map[string]struct {
		asked          int64
		options, super string
		size           int64
		readOnly       bool
	}{
		"as asked, in whole pages": {16*page - 1, "rw", sized(16), 16*page - 1, false},
		"a page more":              {16*page - 1, "rw", sized(17), 17 * page, false},
		"a page less":              {16*page - 1, "rw", sized(15), 15 * page, false},
		"the kernel's own size":    {16 * page, "rw", "rw,mode=755", 0, false},
		"a size nobody asked for":  {0, "rw", sized(16), 16 * page, false},
		"no size, none asked for":  {0, "rw", "rw", 0, false},
		"a size that is none":      {0, "rw", "rw,size=half", -1, false},
		"read-only mount":          {16 * page, "ro,nosuid", sized(16), 16 * page, true},
		"read-only file system":    {0, "rw", "ro", 0, true},
	} {
		asked := bench.Mount{Type: "tmpfs", Target: "/t", Size: test.asked}
		want := bench.Mount{Type: "tmpfs", Target: "/t", Size: test.size, ReadOnly: test.readOnly}
		got := describeMount(asked, proc.Mount{Point: "/t", Options: test.options, Type: "tmpfs", Super: test.super},
			"/nowhere")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAsAppliedBind(t *testing.T) {
	source, other := t.TempDir(), t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(source, link); err != nil {
		t.Fatal(err)
	}
	ext4 := proc.Mount{Point: "/b", Options: "rw", Type: "ext4", Super: "rw"}
	none := bench.Mount{Type: "ext4", Target: "/b"}
	for name, test := range map[string]struct {
		source, inside string
		same           bool
	}{
		"its source":         {source, source, true},
		"by another name":    {link, source, true},
		"another":            {source, other, false},
		"nothing there":      {source, source + "/nothing", false},
		"source has gone":    {source + "/nothing", source, false},
		"neither is there":   {source + "/nothing", source + "/nothing", false},
		"another for a link": {link, other, false},
	} {
		asked := bench.Mount{Type: "bind", Target: "/b", Source: test.source}
		want := none
		if test.same {
			want = asked
		}
		if diff := cmp.Diff(want, describeMount(asked, ext4, test.inside)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWholePages(t *testing.T) {
	page := int64(os.Getpagesize())
	for _, test := range []struct{ want, got, as int64 }{
		{0, 0, 0},
		{10 * page, 10 * page, 10 * page},
		{10*page + 1, 10 * page, 10*page + 1},
		{11*page - 1, 10 * page, 11*page - 1},
		{11 * page, 10 * page, 10 * page},
		{9 * page, 10 * page, 10 * page},
		{0, 10 * page, 10 * page},
		{10 * page, 0, 0}, // none, asked for or held, is no small limit
		{0, 1, 1},
		{1, 0, 0},
	} {
		if got := wholePages(test.want, test.got); got != test.as {
			t.Errorf("wholePages(%d, %d) = %d, want %d", test.want, test.got, got, test.as)
		}
	}
}

func TestLimiting(t *testing.T) {
	for want, groups := range map[string]map[string]string{
		"/memory": {"memory": "/memory", "pids": "/pids", "cpu": "/cpu", "": "/unified", "name=systemd": "/systemd"},
		"/pids":   {"pids": "/pids", "cpu": "/cpu", "": "/unified"},
		"/v2":     {"": "/v2"},
		"/hybrid": {"": "/hybrid", "name=systemd": "/systemd", "freezer": "/freezer"},
		"":        {"name=systemd": "/systemd"},
	} {
		if got := limiting(groups); got != want {
			t.Errorf("limiting(%v) = %q, want %q", groups, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		captured, "Seccomp:\t-1\n", "NSpid:\n", ":\n", "    lo: 0 0\n  eth0: 1 2\n", "980k", "-1k",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := parseStatus(text); err != nil && !cmp.Equal(s, Status{}) {
			t.Errorf("parseStatus = %+v beside an error", s)
		}
		if n := countInterfaces(text); n < 0 || n > len(text) {
			t.Errorf("countInterfaces = %d of %d bytes", n, len(text))
		}
		kibibytes(string(text))
	})
}
