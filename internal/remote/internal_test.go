package remote

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
)

// Whatever strangers send, a greeting is read within its bounds or refused, and
// never more than it is.
func FuzzReadMessage(f *testing.F) {
	var good bytes.Buffer
	if err := writeMessage(&good, hello{1, "v1", []byte("proof")}); err != nil {
		f.Fatal(err)
	}
	f.Add(good.Bytes())
	f.Add([]byte("\x00\x02{}"))
	f.Add([]byte("\xff\xff{}"))
	f.Add([]byte("\x00\x00"))
	f.Add([]byte("\x00\x09{\"proof\":"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(append(bytes.Clone(data), "the rest"...))
		var h hello
		if readMessage(r, &h) != nil {
			return
		}
		if used := int(r.Size()) - r.Len(); used > 2+maxGreeting || used < 3 {
			t.Errorf("a greeting of %d bytes was read", used)
		}
		if h.check(NewToken(), "v1", []byte("connection")) == "" {
			t.Error("a made-up greeting is let in")
		}
	})
}

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

func TestToken(t *testing.T) {
	made := NewToken()
	if again, err := ParseToken("\n " + made.Reveal() + "\n"); err != nil || again != made {
		t.Errorf("a token that was made is not read: %v", err)
	}
	if other := NewToken(); other == made {
		t.Error("two tokens are the same")
	}
	for _, format := range []string{"%v", "%s", "%+v", "%#v", "%q"} {
		if text := fmt.Sprintf(format, Config{Token: made}); strings.Contains(text, made.Reveal()) {
			t.Errorf("printing with %s shows the token", format)
		}
	}
	if text, err := json.Marshal(Target{Token: made}); err != nil || bytes.Contains(text, []byte(made.Reveal())) {
		t.Errorf("as JSON: %s, %v", text, err)
	}
	for _, bad := range []string{
		"", "  ", "short", strings.Repeat("x", 300), strings.Repeat("x", 30) + " y", strings.Repeat("ü", 30),
	} {
		if _, err := ParseToken(bad); err == nil {
			t.Errorf("%.40q is taken for a token", bad)
		} else if len(bad) > 2 && strings.Contains(err.Error(), bad) {
			t.Errorf("%q repeats what was given", err)
		}
	}
}

// A proof is of one side, on one connection, with one token.
func TestProof(t *testing.T) {
	a, b := NewToken(), NewToken()
	seen := map[string]bool{}
	for _, token := range []Token{a, b} {
		for _, who := range []side{client, server} {
			for _, connection := range []string{"1", "2"} {
				seen[string(token.proof(who, []byte(connection)))] = true
			}
		}
	}
	if len(seen) != 8 {
		t.Errorf("%d different proofs, want 8", len(seen))
	}
}

func TestDoor(t *testing.T) {
	var told []string
	now := time.Unix(1_000_000, 0)
	d := newAdmission(func(text string) { told = append(told, text) })
	d.now = func() time.Time { return now }
	from := func(i int) net.Addr {
		return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(fmt.Sprintf("[2001:db8:%x::%x]:1", i/10, i%10)))
	}
	var leave []func()
	for i := range 10 * maxUnauthenticated { // ten of each neighbourhood
		if l, ok := d.enter(from(i)); ok {
			leave = append(leave, l)
		}
	}
	if len(leave) != maxUnauthenticated {
		t.Errorf("%d strangers are in, want %d", len(leave), maxUnauthenticated)
	}
	if len(told) != maxLoggedRefusals {
		t.Errorf("%d refusals are told, want %d", len(told), maxLoggedRefusals)
	}
	for _, l := range leave {
		l()
	}
	for i := range 10 {
		if _, ok := d.enter(from(i)); ok != (i < maxPerAddress) {
			t.Errorf("stranger %d of one neighbourhood: %v", i, ok)
		}
	}
	now = now.Add(2 * refusalTime)
	told = nil
	d.refused("one more")
	if len(told) != 2 || !strings.Contains(told[0], "more connections were refused") || told[1] != "one more" {
		t.Errorf("after a while: %q", told)
	}
}

// Ports are published where the client has come, and nowhere else.
func TestPublishedAddress(t *testing.T) {
	s := &session{local: netip.MustParseAddr("192.0.2.1")}
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
}
