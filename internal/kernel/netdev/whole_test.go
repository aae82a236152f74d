package netdev_test

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/tare-bench/tare/internal/kernel/netdev"
)

// A table that changed while it was read is read again, not for ever; no other error
// is tried again.
func TestWhole(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		interrupted int
		then        error
		want        error
		reads       int
	}{
		{0, nil, nil, 1},
		{3, nil, nil, 4},
		{3, broken, broken, 4},
		{1000, nil, netlink.ErrDumpInterrupted, 100},
	} {
		reads := 0
		all, err := netdev.ReadConsistent(func() ([]int, error) {
			if reads++; reads <= test.interrupted {
				return []int{1}, netlink.ErrDumpInterrupted
			}
			return []int{1, 2}, test.then
		})
		if !errors.Is(err, test.want) || reads != test.reads || err == nil && len(all) != 2 {
			t.Errorf("%+v: %v, error %v, after %d", test, all, err, reads)
		}
	}
}
