package cgroup

import (
	"math"
	"testing"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

func TestParseInt(t *testing.T) {
	for text, want := range map[string]int64{
		"0\n": 0, "-1\n": -1, "max\n": math.MaxInt64, "18446744073709551615\n": math.MaxInt64,
	} {
		if got, err := parseInt([]byte(text)); got != want || err != nil {
			t.Errorf("parseInt(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "many", "1 2"} {
		if _, err := parseInt([]byte(text)); err == nil {
			t.Errorf("parseInt(%q) succeeded", text)
		}
	}
}

func TestParseCPUMax(t *testing.T) {
	for text, want := range map[string]float64{"max 100000\n": 0, "150000 100000\n": 1.5, "-1 100000": 0} {
		if got, err := parseCPUMax([]byte(text)); got != want || err != nil {
			t.Errorf("parseCPUMax(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "max", "1 0", "a b", "1 2 3"} {
		if _, err := parseCPUMax([]byte(text)); err == nil {
			t.Errorf("parseCPUMax(%q) succeeded", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"32 22 0:27 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n",
		"30 25 0:31 / /sys/fs/cgroup/cpu\\040 rw - cgroup cgroup rw,cpu,cpuacct\n",
		"2:cpu,cpuacct:/user.slice\n0::/\n", "usage_usec 48213\nnr_periods 9\n", "max\n", "50000 100000\n",
		"8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0\n",
		"8:16 Read 90430464\n8:16 Total 9\nTotal 9\n", "4242\n0\n-1\n",
		"8:0 rbps=max wiops=500\n", "8:0 500\n", "some avg10=0.00 total=1500\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, e := range entriesOf([]proc.Mount{{Type: "cgroup", Root: string(text), Super: string(text)}}) {
			if got := e.below(e.base); e.base != "" && e.base[0] == '/' && got == "" {
				t.Errorf("%q below itself is empty", e.base)
			}
		}
		parseProcCgroup(text)
		parseKeys(text)
		limits := parseIOMax(text, text)
		for _, k := range blockKinds() {
			addBlkioLimits(limits, k, text, text)
		}
		for key, l := range limits {
			if !(l.Limit > 0) {
				t.Errorf("limit %q of %v", key, l.Limit)
			}
		}
		if d := parsePressure(text); d < Absent {
			t.Errorf("parsePressure = %v", d)
		}
		if cpus, err := parseCPUMax(text); err == nil && (cpus < 0 || math.IsNaN(cpus)) {
			t.Errorf("parseCPUMax = %v", cpus)
		}
	})
}
