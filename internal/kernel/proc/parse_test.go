package proc

import (
	"math"
	"testing"
)

func TestNumber(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "42": 42, "1.70": 1.7, "18446744073709551615": 1 << 64} {
		if got := number([]byte(text)); got != want {
			t.Errorf("number(%q) = %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"", "-1", "x", "1.2.3", "1e3"} {
		if got := number([]byte(text)); !math.IsNaN(got) {
			t.Errorf("number(%q) = %v, want NaN", text, got)
		}
	}
}

// FuzzParse feeds every parser with the same bytes: none may panic, and no
// field may become negative or infinite.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"cpu  1 2 3 4 5 6 7 8 9 10\nctxt 9\nintr 5 4 3\nprocs_running 1\n",
		"cpu0 0 0 1 5 9 1 1500 250 4\n", "pgfault 1000\nallocstall_dma 5\n",
		"some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull total=9\n",
		" 8 0 sda 100 10 2000 300 400 40 8000 900 1 1500 1200 5 0 4000 20 7 30\n",
		"lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\neth0:1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n",
		"0000000a 00000001 0000000f\n", "Dirty: 400 kB\n", "0.25 0.50 0.75 3/900 12345\n", "3400000\n",
		"40 (a (b) S 9) S 1 40 40 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 500 2500000 300\n",
		"      CPU0 CPU1\nTIMER: 1 2\nNET_RX: 3\n", "Tcp: A RetransSegs\nTcp: 1 2\nUdp: InErrors SndbufErrors\nUdp: 3 4\n",
		"entries found drop\n0000000a 00000001 00000002\n0000000a 00000001 00000002\n", "40 41 \n",
		"36 21 0:45 / /mnt/with\\040blank ro,nosuid - tmpfs  rw,size=64k\n", "A=1\x00TARE_RUN=x\x00",
	} {
		f.Add([]byte(seed))
	}
	parsers := []parser{
		stat(), parseSchedstat, vmstat(), pressure(IOPressure, IOFull), diskstats([]string{"sda"}),
		parseNetDev, parseSoftnet, meminfo(), parseLoadavg, parseFrequency,
		softirqKinds(), parseSNMP, parseConntrack,
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var s Snapshot
		s.clear()
		for _, parse := range parsers {
			parse(text, &s)
		}
		for i, v := range s {
			if v < 0 || math.IsInf(v, 0) {
				t.Errorf("field %d = %v", i, v)
			}
		}
		parseProcess(text)
		parseMounts(text)
		parseEnviron(text, "TARE_RUN")
		var tally Tally
		parseOwn(text, &tally)
		valueOf(text, "Tcp:")
		for _, n := range Numbers(text) {
			if n <= 0 {
				t.Errorf("Numbers gave process %d", n)
			}
		}
	})
}

func TestUnescape(t *testing.T) {
	for text, want := range map[string]string{`/a\040b`: "/a b", `/a\134`: `/a\`, `/a\9`: `/a\9`, `/a\777`: `/a\777`} {
		if got := unescape(text); got != want {
			t.Errorf("unescape(%q) = %q, want %q", text, got, want)
		}
	}
}

// FuzzParse feeds every parser with the same bytes: none may panic, and what
// becomes a process to kill must be one.
