package app

import (
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/experiment"
)

// The default run takes a plain process and at most three of the engines that can be used: those with a daemon
// first, no daemon twice. It says what it leaves out, and how to ask for it.
func TestDefaultRunTakes(t *testing.T) {
	source, _ := experiment.Builtin("quick")
	for _, tt := range []struct{ found, want, said string }{
		{
			"native floor crun runc youki runsc containerd podman docker cri", "native containerd podman docker",
			"not included: floor, crun, runc, youki, runsc, cri; --engine native,containerd,podman,docker,floor adds one, " +
				"--engine auto includes all",
		},
		{
			"native floor runc containerd cri", "native floor runc containerd",
			"not included: cri; --engine native,floor,runc,containerd,cri adds one, --engine auto includes all",
		},
		{"native floor runc cri", "native floor runc cri", ""},
		{"native floor", "native floor", ""},
	} {
		e, err := experiment.Parse("quick.yaml", source)
		if err != nil {
			t.Fatal(err)
		}
		known := knownNames()
		known.Found = func() []string { return strings.Fields(tt.found) }
		p, err := e.Plan(known, 1)
		if err != nil {
			t.Fatal(err)
		}
		var engines []string
		for _, c := range p.Cells {
			if !c.Control {
				engines = append(engines, c.Engine)
			}
		}
		if got, said := strings.Join(engines, " "), OmittedEngines(p); got != tt.want || said != tt.said {
			t.Errorf("of %s: %q, want %q; says %q, want %q", tt.found, got, tt.want, said, tt.said)
		}
	}
}
