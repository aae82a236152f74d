package experiment_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
)

// A plain process is one cell however many networks its containers have, and a
// level of the network can ask for it.
func TestPlainProcessIsOneCell(t *testing.T) {
	for _, tt := range []struct{ yaml, want string }{
		{"factors: {engine: [native, runc], network: [none, host]}", "native:host, runc none:none, runc host:host"},
		{"factors: {engine: [runc], network: [native, host]}", "native:host, runc host:host"},
		{"factors: {engine: [runc], network: [native, published, peer]}", "native:host, runc published:bridge/published, runc peer:bridge/peer"},
		{"factors: {engine: [native, runc], storage: [layer, tmpfs], cpus: [1, 2]}", "native cpus=1:host, " +
			"native cpus=2:host, runc layer cpus=1:, runc layer cpus=2:, runc tmpfs cpus=1:, runc tmpfs cpus=2:"},
		{"factors: {engine: [native, runc]}\nconditions: {network: [none, bridge]}", "native:host, runc:none, native:host, runc:bridge"},
		{"factors: {engine: [native, runc], network: [none, macvlan]}\nexclude: [{engine: native, " +
			"network: none}]", "native:host, runc none:none, runc macvlan:macvlan/peer"},
		{"factors: {engine: [native, runc], network: [host, bridge, socket]}", "native:host, native socket:host/socket, " +
			"runc host:host, runc bridge:bridge, runc socket:/socket"},
		{"factors: {engine: [native, runc], network: socket}", "native:host/socket, runc:/socket"},
		{
			"factors: {engine: [native, runc]}\nconditions: {network: [host, socket]}",
			"native:host, runc:host, native:host/socket, runc:/socket",
		},
		{"factors: {engine: [native, runc], network: [{name: own, network: bridge}]}", "native:bridge, runc:bridge"}, // what is named is meant
	} {
		p, err := plan("x.yaml", []byte("workload: lifecycle\ncontrol: false\n"+tt.yaml))
		if err != nil {
			t.Errorf("%s: %v", tt.yaml, err)
			continue
		}
		var got []string
		for _, c := range p.Cells {
			got = append(got, c.Name+":"+strings.TrimSuffix(c.Spec.Network+"/"+c.Spec.Reach, "/"))
			if c.Engine == "native" && c.Spec.Storage != "" {
				t.Errorf("%s: a plain process is asked for storage %s", tt.yaml, c.Spec.Storage)
			}
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.yaml, diff)
		}
	}
}

// "auto-2" takes the plain process and the two engines of the highest rank, in
// the order in which engines are shown, and says which it leaves out.
func TestAutoLimit(t *testing.T) {
	known := known()
	known.Found = func() []string { return []string{"native", "floor", "runc", "docker"} }
	known.Rank = []string{"podman", "docker", "runc", "floor"}
	for _, tt := range []struct{ level, want, left string }{
		{"auto", "native floor runc docker", ""},
		{"auto-1", "native docker", "floor runc"},
		{"auto-2", "native runc docker", "floor"},
		{"auto-9", "native floor runc docker", ""},
		{"[floor, auto-1]", "floor native docker", "runc"},
	} {
		p, err := planWith(known, "x.yaml", []byte("workload: lifecycle\ncontrol: false\nfactors: {engine: "+tt.level+"}"))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(cellEngines(p), " "); got != tt.want || strings.Join(p.LeftOut, " ") != tt.left {
			t.Errorf("%s: %s without %s, want %s without %s", tt.level, got, p.LeftOut, tt.want, tt.left)
		}
	}
}

// The same daemon is not taken twice.
func TestAutoLimitBehind(t *testing.T) {
	known := known()
	known.Engines = append(known.Engines, "containerd", "cri")
	known.Rank, known.Behind = []string{"containerd", "cri", "runc"}, map[string]string{"cri": "containerd"}
	for found, want := range map[string]string{
		"native containerd cri runc": "native containerd runc", "native cri runc floor": "native cri runc",
	} {
		known.Found = func() []string { return strings.Fields(found) }
		p, err := planWith(known, "x.yaml", []byte("workload: lifecycle\ncontrol: false\nfactors: {engine: auto-2}"))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(cellEngines(p), " "); got != want {
			t.Errorf("of %s: %s, want %s", found, got, want)
		}
	}
}

func cellEngines(p bench.Plan) (names []string) {
	for _, c := range p.Cells {
		names = append(names, c.Engine)
	}
	return names
}
