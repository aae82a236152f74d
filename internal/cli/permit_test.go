package cli

import (
	"errors"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/party"
)

// Who has the token can have what answers over the network run, and nothing by
// which it would get at the machine.
func TestPermit(t *testing.T) {
	serve := party.Loads([]string{"net-server", "port=0"})
	images := []string{"host:nginx"}
	for name, test := range map[string]struct {
		spec bench.Spec
		ok   bool
	}{
		"a server":                  {bench.Spec{Argv: serve, Env: []string{"TARE_NET_TOKEN=x"}}, true},
		"a server by name":          {bench.Spec{Image: bench.AgentImage, Argv: serve}, true},
		"two servers":               {bench.Spec{Argv: party.Loads([]string{"net-server"}, []string{"net-server"})}, true},
		"limited":                   {bench.Spec{Argv: serve, Limits: bench.Limits{CPUs: 1}, Security: bench.Security{ReadOnly: true}}, true},
		"nothing yet":               {bench.Spec{Network: "bridge"}, true},
		"an allowed image":          {bench.Spec{Image: "host:nginx", Argv: []string{"nginx", "-v"}, Env: []string{"A=b"}}, true},
		"another image":             {bench.Spec{Image: "host:bash"}, false},
		"a shell":                   {bench.Spec{Argv: []string{"/bin/sh", "-c", "id"}}, false},
		"another task of the agent": {bench.Spec{Argv: []string{"/tare-agent", "cat", "/etc/shadow"}}, false},
		"a load that writes":        {bench.Spec{Argv: party.Loads([]string{"disk", "dir=/etc"})}, false},
		"a load that writes, too":   {bench.Spec{Argv: party.Loads([]string{"net-server"}, []string{"disk", "dir=/etc"})}, false},
		"a load behind nothing":     {bench.Spec{Argv: []string{"/tare-agent", "load", "--", "disk"}}, false},
		"an environment":            {bench.Spec{Argv: serve, Env: []string{"GODEBUG=http2debug=2"}}, false},
		"a directory":               {bench.Spec{Argv: serve, Dir: "/root"}, false},
		"a file of the host":        {bench.Spec{Argv: serve, Mounts: []bench.Mount{{Type: "bind", Source: "/", Target: "/h"}}}, false},
		"a file in an image":        {bench.Spec{Image: "host:nginx", Mounts: []bench.Mount{{Type: "bind", Source: "/", Target: "/h"}}}, false},
		"data of the host":          {bench.Spec{Argv: serve, Data: "/etc"}, false},
		"a bind mount":              {bench.Spec{Argv: serve, Storage: "bind"}, false},
		"privileges":                {bench.Spec{Argv: serve, Security: bench.Security{Privileged: true}}, false},
		"privileges in an image":    {bench.Spec{Image: "host:nginx", Security: bench.Security{Privileged: true}}, false},
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
