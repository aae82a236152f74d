package cli

import (
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/remote/peer"
)

// What to do about a machine fits what is wrong with it: space is no help where a program or a permission is missing.
func TestPeerHints(t *testing.T) {
	for want, e := range map[string]peer.Error{
		"check that there is space at /home/u/.cache/tare/one on that machine": {
			Kind: peer.NotCopied, Dir: "/home/u/.cache/tare/one",
		},
		"try again; a tare of this version in PATH there needs no copy": {Kind: peer.CutShort},
		"install coreutils on that machine":                             {Kind: peer.NoSum},
		"$XDG_CACHE_HOME of your login there chooses another place":     {Kind: peer.ForeignDir},
	} {
		if got := peerHint(&e); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", e.Kind, got, want)
		}
	}
}
