package proc_test

import (
	"errors"
	"io/fs"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

func everything() []proc.Source {
	return []proc.Source{
		proc.Stat, proc.Schedstat, proc.Vmstat, proc.Pressure, proc.Diskstats,
		proc.NetDev, proc.Softnet, proc.Meminfo, proc.Loadavg, proc.CPUFreq,
		proc.SoftirqKinds, proc.SNMP, proc.Conntrack,
	}
}

// read returns the fields that the tree gives.
func read(t *testing.T, root string, sources ...proc.Source) map[proc.Field]float64 {
	t.Helper()
	s, err := proc.Open(root, sources...)
	if err != nil {
		t.Fatal(err)
	}
	var snap proc.Snapshot
	s.Read(&snap)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	given := map[proc.Field]float64{}
	for f, v := range snap {
		if !math.IsNaN(v) {
			given[proc.Field(f)] = v
		}
	}
	return given
}

func TestReadMetal(t *testing.T) {
	want := map[proc.Field]float64{
		proc.UserTime: 12, proc.SystemTime: 3, proc.IdleTime: 40, proc.IOWaitTime: 0.5,
		proc.IRQTime: 0.6, proc.SoftirqTime: 0.7, proc.StealTime: 0,
		proc.ContextSwitches: 7654321, proc.Interrupts: 123456, proc.Softirqs: 98765,
		proc.Forks: 4321, proc.Running: 3, proc.Blocked: 2,
		proc.CPUTime: 2, proc.WaitTime: 1, proc.Timeslices: 10000,
		proc.PageFaults: 1000, proc.MajorFaults: 10, proc.SwapIns: 3, proc.SwapOuts: 4,
		proc.AllocStalls: 11, proc.OOMKills: 1,
		proc.CPUPressure: 1.5, proc.MemoryPressure: 0.25, proc.MemoryFull: 0.125,
		proc.IOPressure: 3, proc.IOFull: 2,
		proc.DiskReads: 101, proc.DiskReadBytes: 2008 * 512, proc.DiskWrites: 402,
		proc.DiskWriteBytes: 8016 * 512, proc.DiskFlushes: 7, proc.DiskTime: 1.503,
		proc.NetPackets: 17, proc.NetBytes: 1502, proc.LoopPackets: 30, proc.LoopBytes: 3000,
		proc.NetDrops: 17, proc.NetSqueezes: 17,
		proc.TimerSoftirqs: 2297258, proc.NetRxSoftirqs: 92437, proc.NetTxSoftirqs: 79902, proc.BlockSoftirqs: 8189213,
		proc.TCPRetransmits: 2, proc.UDPErrors: 7, proc.Tracked: 18, proc.TrackDrops: 19,
		proc.MemoryAvailable: 40000000 << 10, proc.Dirty: 400 << 10, proc.Writeback: 12 << 10,
		proc.Cached: 2000000 << 10, proc.Load1: 0.25, proc.Frequency: 3.4e9,
	}
	if diff := cmp.Diff(want, read(t, "testdata/metal", everything()...)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(want) != len(proc.Snapshot{}) {
		t.Errorf("the tree gives %d of %d fields", len(want), len(proc.Snapshot{}))
	}
}

func TestReadMissing(t *testing.T) {
	// The guest has no schedstat, no cpufreq and tracks no connections: absent, not zero.
	got := read(t, "testdata/vm", everything()...)
	for _, f := range []proc.Field{
		proc.CPUTime, proc.WaitTime, proc.Timeslices, proc.Frequency, proc.Tracked, proc.TrackDrops,
	} {
		if v, ok := got[f]; ok {
			t.Errorf("field %d = %v, want none", f, v)
		}
	}
	if len(got) != len(proc.Snapshot{})-6 {
		t.Errorf("%d fields, want all but six", len(got))
	}
}

func TestReadOnlyWhatWasAsked(t *testing.T) {
	want := map[proc.Field]float64{proc.Load1: 0.25}
	if diff := cmp.Diff(want, read(t, "testdata/metal", proc.Loadavg)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOpenNothing(t *testing.T) {
	if _, err := proc.Open(t.TempDir(), everything()...); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of an empty tree: %v, want fs.ErrNotExist", err)
	}
}

func TestReadLive(t *testing.T) {
	s, err := proc.Open("/", everything()...)
	if err != nil {
		t.Fatal(err)
	}
	var before, after proc.Snapshot
	s.Read(&before)
	s.Read(&after)
	for f := range proc.Running {
		if after[f] < before[f] && f != proc.IdleTime && f != proc.IOWaitTime { // the kernel warns of those two
			t.Errorf("field %d went from %v to %v", f, before[f], after[f])
		}
	}
	if n := testing.AllocsPerRun(20, func() { s.Read(&after) }); n != 0 {
		t.Errorf("Read allocates %v times", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func BenchmarkRead(b *testing.B) {
	for _, bench := range []struct {
		name    string
		sources []proc.Source
	}{
		{"everything", everything()},
		{"stat", []proc.Source{proc.Stat}},
		{"vmstat", []proc.Source{proc.Vmstat}},
		{"pressure", []proc.Source{proc.Pressure}},
		{"diskstats", []proc.Source{proc.Diskstats}},
		{"net", []proc.Source{proc.NetDev, proc.Softnet}},
		{"meminfo", []proc.Source{proc.Meminfo}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s, err := proc.Open("/", bench.sources...)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }() // nothing was written
			var snap proc.Snapshot
			b.ReportAllocs()
			for b.Loop() {
				s.Read(&snap)
			}
		})
	}
}
