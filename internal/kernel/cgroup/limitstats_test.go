package cgroup

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseBlockLimits(t *testing.T) {
	want := map[string]BlockLimit{"8:0 wiops": {500, 353}, "8:16 rbps": {1048576, 0}}
	two := parseIOMax(
		[]byte("8:0 rbps=max wbps=max riops=max wiops=500\n8:16 rbps=1048576 wbps=max\n"),
		[]byte("8:0 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0\n"),
	)
	if diff := cmp.Diff(want, two); diff != "" {
		t.Errorf("version 2 (-want +got):\n%s", diff)
	}
	one := map[string]BlockLimit{}
	kinds := blockKinds()
	addBlkioLimits(one, kinds[3], []byte("8:0 500\n"), []byte("8:0 Read 192\n8:0 Write 353\nTotal 545\n"))
	addBlkioLimits(one, kinds[0], []byte("8:16 1048576\n"), nil)
	if diff := cmp.Diff(want, one); diff != "" {
		t.Errorf("version 1 (-want +got):\n%s", diff)
	}
}

func TestParsePressure(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"some avg10=0.00 avg60=0.00 avg300=0.00 total=1500\nfull avg10=0.00 total=9\n": 1500 * time.Microsecond,
		"": Absent, "some total=x": Absent, "some total=-1": Absent, "some total=9223372036854775807": Absent,
	} {
		if got := parsePressure([]byte(text)); got != want {
			t.Errorf("parsePressure(%q) = %v, want %v", text, got, want)
		}
	}
}

// What was counted before is taken off, but for what was not counted at all.
func TestSince(t *testing.T) {
	before := LimitStats{
		Throttled: time.Second, LimitHits: Absent, Refaults: 7, IOPressure: Absent,
		Blocks: map[string]BlockLimit{"8:0 rios": {10, 4}},
	}
	now := LimitStats{
		Throttled: 3 * time.Second, LimitHits: 9, Refaults: 7, IOPressure: Absent,
		Blocks: map[string]BlockLimit{"8:0 rios": {10, 6}, "8:0 wios": {1, 2}},
	}
	want := LimitStats{
		Throttled: 2 * time.Second, LimitHits: Absent, Refaults: 0, IOPressure: Absent,
		Blocks: map[string]BlockLimit{"8:0 rios": {10, 2}, "8:0 wios": {1, 2}},
	}
	if diff := cmp.Diff(want, now.Since(before)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The group of the whole machine meets no limit, whether the kernel says so or not.
func TestStrainOfTheRoot(t *testing.T) {
	h, err := Detect("testdata/v2")
	if err != nil {
		t.Fatal(err)
	}
	s := h.LimitStats(map[string]string{"": "/"})
	if s.Throttled != 0 || s.LimitHits != 0 || len(s.Blocks) != 0 {
		t.Errorf("%+v", s)
	}
	if s := h.LimitStats(nil); s.Throttled != Absent || s.LimitHits != Absent || s.Refaults != Absent {
		t.Errorf("of no group: %+v", s)
	}
}
