package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
)

// What comes as a request is one, or is refused.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"engine":"runc","container":1,"spec":{"argv":["/tare-agent"]}}`))
	f.Add([]byte(`{"port":{"container":-1}}`))
	f.Add([]byte(`{"more":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r Request
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if d.Decode(&r) != nil {
			return
		}
		_ = reachable(r.Spec) // must not fail otherwise than by its error
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("a request that was read cannot be sent: %v", err)
		}
		var second Request
		if err := json.Unmarshal(again, &second); err != nil {
			t.Errorf("a request that was sent cannot be read: %v", err)
		}
	})
}

// Ports are published where the client has come, and nowhere else.
func TestPublishedAddress(t *testing.T) {
	s := &session{Config: Config{Address: netip.MustParseAddr("192.0.2.1")}}
	asked := bench.Spec{
		Network: "bridge", Reach: bench.ReachPublished, Ports: []bench.Port{
			{Container: 80, Protocol: "tcp", Address: "0.0.0.0"},
		},
	}
	got, err := s.permitted(asked)
	if err != nil {
		t.Fatal(err)
	}
	want := []bench.Port{{Container: 80, Protocol: "tcp", Address: "192.0.2.1"}}
	if diff := cmp.Diff(want, got.Ports); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
	if asked.Ports[0].Address != "0.0.0.0" {
		t.Error("the request was changed")
	}
	s.Address = netip.Addr{}
	if _, err := s.permitted(asked); !errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("without an address: %v, want that it is not supported", err)
	}
}
