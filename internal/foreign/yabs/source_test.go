package yabs_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tare-bench/tare/internal/foreign"
	"github.com/tare-bench/tare/internal/foreign/yabs"
)

// output has what YABS v2025-04-20 prints, shortened.
const output = `# ## ## ## Yet-Another-Bench-Script ## ## ## #
{"version":"v2025-04-20","time":"20260102-134114","os":{"arch":"x64","distro":"Debian GNU/Linux 13 (trixie)",` +
	`"kernel":"6.12.1","uptime":297.72,"vm":"KVM"},"net":{"ipv4":true,"ipv6":false},"cpu":{"model":"AMD EPYC","cores":2,` +
	`"freq":"2445.404 MHz","aes":true,"virt":false},"mem":{"ram":4000000,"ram_units":"KiB","swap":0,"swap_units":"KiB",` +
	`"disk":906519496,"disk_units":"KB"},"ip_info":{"protocol":"IPv4","isp":"somebody"},"partition":"/dev/vda1",` +
	`"fio":[{"bs":"4k","speed_r":1000,"iops_r":250,"speed_w":1010,"iops_w":252,"speed_rw":2010,"iops_rw":502,` +
	`"speed_units":"KBps"},` +
	`{"bs":"64k","speed_r":,"iops_r":,"speed_w":,"iops_w":,"speed_rw":0,"iops_rw":0,"speed_units":"KBps"}],` +
	`"iperf":[{"mode":"IPv4","provider":"Clouvider","loc":"London, UK (10G)","send":"1.61 Gbits/sec",` +
	`"recv":"240 Mbits/sec","latency":"77.5 ms"},` +
	`{"mode":"IPv4","provider":"Scaleway","loc":"Paris, FR (10G)","send":"busy ","recv":"busy ","latency":"--"}],` +
	`"geekbench":[{"version":6,"single":1549,"multi":null,"url":"https://browser.geekbench.com/v6/cpu/1"}],` +
	`"runtime":{"start":1767355200,"end":1767356000,"elapsed":800}}
`

func read(t testing.TB, text string) ([]foreign.Set, error) {
	t.Helper()
	return yabs.Source().Read(&foreign.Input{Files: []foreign.File{foreign.NewFile("yabs.json", text)}})
}

// lines tells what a set has in it.
func lines(s *foreign.Set) (all []string) {
	for _, t := range s.Trials {
		var text strings.Builder
		for _, l := range t.Levels {
			text.WriteString(l.Key + "=" + l.Value + " ")
		}
		var names []string
		for name, v := range t.Values {
			names = append(names, fmt.Sprintf("%s=%.6g", name, v))
		}
		slices.Sort(names)
		all = append(all, text.String()+strings.Join(names, " ")+t.Failed)
	}
	return all
}

func TestOutput(t *testing.T) {
	sets, err := read(t, output)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range sets {
		got = append(got, sets[i].Labels[0].Value)
		got = append(got, lines(&sets[i])...)
	}
	want := []string{
		"fio",
		"block=4k mixed.iops=502 mixed.rate=2.05824e+06 mixed.read.iops=250 mixed.read.rate=1.024e+06 mixed.write.iops=252 " +
			"mixed.write.rate=1.03424e+06",
		"block=64k YABS has no result of fio",
		"iperf3",
		"mode=IPv4 server=Clouvider London, UK (10G) internet.receive=3e+07 internet.rtt=0.0775 internet.send=2.0125e+08",
		"mode=IPv4 server=Scaleway Paris, FR (10G) the server was busy",
		"geekbench",
		"version=6 geekbench.single=1549",
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	h := sets[0].Host
	if h.Arch != "amd64" || h.OS != "Debian GNU/Linux 13 (trixie)" || h.CPUs != 2 || h.Memory != 4000000<<10 ||
		h.Virtual != "kvm" {
		t.Errorf("host %+v", h)
	}
	for i := range sets {
		if run, err := sets[i].Run("test"); err != nil || run.Header.Began.Unix() != 1767355200 {
			t.Errorf("%s: %v, began %v", sets[i].Doc, err, run.Header.Began)
		}
	}
}

// Without a network there is a list that YABS does not open, and a run that skipped everything has no results.
func TestHalfWritten(t *testing.T) {
	const head = `{"version":"v1","os":{"arch":"x64","kernel":"6.1"}`
	sets, err := read(t, head+`,"fio":[{"bs":"4k","speed_rw":1,"iops_rw":1}],"iperf":],"geekbench":[]}`)
	if err != nil || len(sets) != 1 {
		t.Errorf("%d sets, %v; want that of fio", len(sets), err)
	}
	if sets, err := read(t, head+"}"); err != nil || len(sets) != 0 {
		t.Errorf("nothing measured: %d sets, %v", len(sets), err)
	}
}

func TestWrongFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "yabs.json: there is no JSON in it",
		"no JSON":          "yabs.json: there is no JSON in it",
		`{"version":"v1"`:  "yabs.json: its JSON is damaged: unexpected EOF",
		`{"results":{}}`:   "yabs.json: its JSON is not of YABS",
		`{"version":"v1"}`: "yabs.json: its JSON is not of YABS",
	} {
		if _, err := read(t, text); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func FuzzOutput(f *testing.F) {
	f.Add(output)
	f.Add(`{"version":"v1","os":{"kernel":"6"},"fio":[{"bs":"\\\"","iops_rw":"x"}]}{`)
	f.Add(`{"a":,"b":]`)
	f.Fuzz(func(t *testing.T, text string) {
		sets, err := read(t, text)
		if err != nil {
			return
		}
		for _, s := range sets {
			run, err := s.Run("test")
			if err != nil {
				return // there are limits
			}
			for _, sample := range run.Samples {
				if slices.ContainsFunc(sample.Values, func(v float64) bool { return v < 0 || math.IsInf(v, 0) }) {
					t.Errorf("impossible values %v", sample.Values)
				}
			}
		}
	})
}
