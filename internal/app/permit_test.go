package app

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/supervise"
)

// A client can have what answers over the network run, and nothing by which it would get at the
// machine.
func TestPermit(t *testing.T) {
	serve := supervise.Loads(nil, []string{"net-server", "port=0"})
	images := []string{"host:nginx"}
	for name, test := range map[string]struct {
		spec bench.Spec
		ok   bool
	}{
		"a server":                         {bench.Spec{Argv: serve, Env: []string{"TARE_NET_TOKEN=x"}}, true},
		"a server by name":                 {bench.Spec{Image: bench.AgentImage, Argv: serve}, true},
		"two servers":                      {bench.Spec{Argv: supervise.Loads(nil, []string{"net-server"}, []string{"net-server"})}, true},
		"limited":                          {bench.Spec{Argv: serve, Limits: bench.Limits{CPUs: 1}, Security: bench.Security{ReadOnly: true}}, true},
		"nothing yet":                      {bench.Spec{Network: "bridge"}, true},
		"an allowed image":                 {bench.Spec{Image: "host:nginx", Argv: []string{"nginx", "-v"}, Env: []string{"A=b"}}, true},
		"another image":                    {bench.Spec{Image: "host:bash"}, false},
		"a shell":                          {bench.Spec{Argv: []string{"/bin/sh", "-c", "id"}}, false},
		"another task of the agent":        {bench.Spec{Argv: []string{"/tare-agent", "cat", "/etc/shadow"}}, false},
		"a load that writes":               {bench.Spec{Argv: supervise.Loads(nil, []string{"disk", "dir=/etc"})}, false},
		"a load that writes, too":          {bench.Spec{Argv: supervise.Loads(nil, []string{"net-server"}, []string{"disk", "dir=/etc"})}, false},
		"a load behind nothing":            {bench.Spec{Argv: []string{"/tare-agent", "load", "--", "disk"}}, false},
		"an environment":                   {bench.Spec{Argv: serve, Env: []string{"GODEBUG=http2debug=2"}}, false},
		"a directory":                      {bench.Spec{Argv: serve, Dir: "/root"}, false},
		"a file of the host":               {bench.Spec{Argv: serve, Mounts: []bench.Mount{{Type: "bind", Source: "/", Target: "/h"}}}, false},
		"a file in an image":               {bench.Spec{Image: "host:nginx", Mounts: []bench.Mount{{Type: "bind", Source: "/", Target: "/h"}}}, false},
		"data of the host":                 {bench.Spec{Argv: serve, Data: "/etc"}, false},
		"a bind mount":                     {bench.Spec{Argv: serve, Storage: "bind"}, false},
		"a runtime by name":                {bench.Spec{Argv: serve, Runtime: "crun"}, true},
		"a program as runtime":             {bench.Spec{Argv: serve, Runtime: "/tmp/evil"}, false},
		"a program in PATH":                {bench.Spec{Argv: serve, Runtime: "evil"}, false},
		"a shim":                           {bench.Spec{Argv: serve, Runtime: "io.containerd.evil.v1"}, false},
		"a runtime for an image":           {bench.Spec{Image: "host:nginx", Runtime: "evil"}, false},
		"a snapshotter":                    {bench.Spec{Argv: serve, Snapshotter: "evil"}, false},
		"another's network":                {bench.Spec{Argv: serve, Network: "container:db"}, false},
		"a port of the system":             {bench.Spec{Argv: serve, Ports: []bench.Port{{Container: 80, Host: 22, Protocol: "tcp"}}}, false},
		"a server on a port of the system": {bench.Spec{Argv: supervise.Loads(nil, []string{"net-server", "port=53"}), Network: "host"}, false},
		"a server on a port":               {bench.Spec{Argv: supervise.Loads(nil, []string{"net-server", "port=5201"})}, true},
		"another protocol":                 {bench.Spec{Argv: serve, Ports: []bench.Port{{Container: 80, Protocol: "sctp"}}}, false},
		"a file of seccomp":                {bench.Spec{Argv: serve, Security: bench.Security{Seccomp: "/etc/passwd"}}, false},
		"processors by name":               {bench.Spec{Argv: serve, Limits: bench.Limits{CPUSet: "../x"}}, false},
		"a limit below zero":               {bench.Spec{Argv: serve, Limits: bench.Limits{Pids: -1}}, false},
		"a place for data":                 {bench.Spec{Argv: serve, Storage: "volume"}, false},
		"a place in a project":             {bench.Spec{Argv: serve, Member: &bench.Membership{}}, false},
		"published": {
			bench.Spec{
				Argv: serve, Network: "bridge", Reach: bench.ReachPublished, Ports: []bench.Port{{Container: 80, Protocol: "tcp"}},
			}, true,
		},
		"privileges":             {bench.Spec{Argv: serve, Security: bench.Security{Privileged: true}}, false},
		"privileges in an image": {bench.Spec{Image: "host:nginx", Security: bench.Security{Privileged: true}}, false},
	} {
		err := permit(test.spec, images)
		if (err == nil) != test.ok {
			t.Errorf("%s: %v, want allowed: %v", name, err, test.ok)
		}
		if err != nil && (!errors.Is(err, errForbidden) || !errors.Is(err, bench.ErrUnsupported)) {
			t.Errorf("%s: %v is no refusal of what is forbidden, and so not supported", name, err)
		}
	}
}

// A field that is added to a Spec, or to a part of it, is not allowed until somebody has
// thought about it: then it is listed here.
func TestPermitKnowsEveryField(t *testing.T) {
	for part, known := range map[reflect.Type][]string{
		reflect.TypeFor[bench.Spec]():     slices.Collect(maps.Keys(permissions())),
		reflect.TypeFor[bench.Port]():     {"Container", "Host", "Address", "Protocol"},
		reflect.TypeFor[bench.Limits]():   {"CPUs", "CPUSet", "Memory", "Pids"},
		reflect.TypeFor[bench.Security](): {"Seccomp", "UserNS", "ReadOnly", "NoNewPrivileges", "Privileged"},
	} {
		var fields []string
		for field := range part.Fields() {
			fields = append(fields, field.Name)
		}
		slices.Sort(fields)
		slices.Sort(known)
		if !slices.Equal(fields, known) {
			t.Errorf("%v has the fields %q, and permit has rules for %q", part, fields, known)
		}
	}
}
