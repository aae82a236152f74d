package netpath

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const tcp = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode                                                     
   0: 0100007F:9FFD 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 10435890 1 0000000000000000 100 0 0 10 0
   1: 0100007F:9FFD 0100007F:B2D8 01 00000000:00000000 00:00000000 00000000     0        0 10436521 1 0000000000000000 20 0 0 10 -1
`

const tcp6 = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1234 1 0000000000000000 100 0 0 10 0
   1: 0000000000000000FFFF00000100007F:0016 0000000000000000FFFF00000100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 0 1 0000000000000000 20 4 30 10 -1
`

func TestParseSockets(t *testing.T) {
	at := netip.MustParseAddrPort
	for text, want := range map[string][]socket{
		"":   nil,
		tcp:  {{at("127.0.0.1:40957"), at("0.0.0.0:0"), 10435890}, {at("127.0.0.1:40957"), at("127.0.0.1:45784"), 10436521}},
		tcp6: {{at("[::]:22"), at("[::]:0"), 1234}, {at("127.0.0.1:22"), at("127.0.0.1:54321"), 0}},
	} {
		if diff := cmp.Diff(want, parseSockets([]byte(text)), cmp.AllowUnexported(socket{}),
			cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestListensAt(t *testing.T) {
	at := netip.MustParseAddrPort
	target := at("127.0.0.1:80")
	for _, test := range []struct {
		local, remote string
		want          bool
	}{
		{"127.0.0.1:80", "0.0.0.0:0", true},
		{"0.0.0.0:80", "0.0.0.0:0", true},
		{"[::]:80", "[::]:0", true},
		{"127.0.0.2:80", "0.0.0.0:0", false},
		{"127.0.0.1:81", "0.0.0.0:0", false},
		{"127.0.0.1:80", "127.0.0.1:5000", false}, // a connection
	} {
		if got := (socket{local: at(test.local), remote: at(test.remote)}).listensAt(target); got != test.want {
			t.Errorf("a socket of %s with %s listens at %v: %v", test.local, test.remote, target, got)
		}
	}
}

func FuzzSockets(f *testing.F) {
	f.Add([]byte(tcp))
	f.Add([]byte(tcp6))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, s := range parseSockets(text) {
			if !s.local.Addr().IsValid() || !s.remote.Addr().IsValid() {
				t.Errorf("%q: a socket without an address: %+v", text, s)
			}
		}
	})
}

// What is published on all addresses is reached by one that others use.
func TestOutward(t *testing.T) {
	at := netip.MustParseAddrPort
	for _, named := range []string{"127.0.0.1:80", "192.0.2.7:80", "[::1]:80"} {
		if got := reachableAddress(at(named)); got != at(named) {
			t.Errorf("outward(%s) = %v, want it as it is", named, got)
		}
	}
	for _, all := range []string{"0.0.0.0:80", "[::]:80"} {
		if got := reachableAddress(at(all)); got.Port() != 80 || !got.Addr().Is4() || got.Addr().IsUnspecified() {
			t.Errorf("outward(%s) = %v, want an address of this host", all, got)
		}
	}
}
