package timeline

import (
	order "cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/kernel/recording"
)

const us = time.Microsecond

// The threads of the hand-made recordings. Each is the first of a process of its own, except where told.
const (
	tare   = 10
	daemon = 20
	worker = 21 // of daemon
	child  = 30
)

// A tape is a recording that is made by hand. Times are in µs.
type tape struct{ recording.Recording }

func newTape() *tape {
	return &tape{recording.Recording{
		Processes: []recording.Process{
			{ID: tare, Parent: 1, Name: "tare", Tare: true}, {ID: daemon, Parent: 1, Name: "dockerd"},
		},
		Stacks: [][]string{
			{"__schedule", "schedule", "pipe_read", "vfs_read"},                            // 0
			{"try_to_wake_up", "hrtimer_wakeup", "hrtimer_interrupt", "sysvec_apic"},       // 1
			{"__schedule", "schedule", "percpu_down_write", "cgroup_procs_write_start"},    // 2
			{"try_to_wake_up", "rcu_gp_cleanup"},                                           // 3
			{"try_to_wake_up", "virtblk_done", "handle_irq_event", "asm_common_interrupt"}, // 4
			{"__schedule", "schedule", "jbd2_log_wait_commit", "ext4_sync_file"},           // 5
			{"__schedule", "schedule", "do_nanosleep", "hrtimer_nanosleep"},                // 6
			{"__schedule", "schedule", "schedule_hrtimeout_range", "ep_poll"},              // 7
		},
	}}
}

func processOf(thread int) int {
	if thread == worker {
		return daemon
	}
	return thread
}

func (t *tape) add(at int, k recording.Kind, thread, other int) *recording.Event {
	t.Events = append(t.Events, recording.Event{
		At: time.Duration(at) * us, Kind: k, Thread: thread, Process: processOf(thread),
		Other: other, OtherProcess: processOf(other), Stack: -1,
	})
	return &t.Events[len(t.Events)-1]
}

func (t *tape) on(at, thread int)        { t.add(at, recording.Switch, 0, thread) }
func (t *tape) preempted(at, thread int) { t.add(at, recording.Switch, thread, 0).Preempted = true }

func (t *tape) blocks(at, thread, stack int) { t.add(at, recording.Switch, thread, 0).Stack = stack }
func (t *tape) fork(at, thread, other int)   { t.add(at, recording.Fork, thread, other) }
func (t *tape) exit(at, thread int)          { t.add(at, recording.Exit, thread, 0) }
func (t *tape) exec(at, thread int, file string) {
	t.add(at, recording.Exec, thread, thread).Text = file
}

func (t *tape) wakes(at, by, thread, stack int, name string) {
	e := t.add(at, recording.Wake, by, thread)
	e.Stack, e.Text = stack, name
}

func (t *tape) call(from, to, thread int, name string) {
	e := t.add(to, recording.Call, thread, 0)
	e.Began, e.Text = time.Duration(from)*us, name
}

// told is a path in words, a line for each tile: from, to, thread, kind, class, reason.
func told(h *history, tiles []Tile) string {
	var b strings.Builder
	for _, t := range tiles {
		fmt.Fprintf(&b, "%d–%d %s: %s, %s", t.At/us, t.End()/us, h.lanes[t.Lane].Role, t.Kind, t.Class)
		if t.Reason != "" {
			fmt.Fprintf(&b, ": %s", t.Reason)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestPath(t *testing.T) {
	for _, test := range []struct {
		name     string
		from, to int
		end      int // the thread
		tape     func(t *tape)
		want     string
	}{
		{"runs all the time", 5, 50, tare, func(t *tape) { t.call(20, 30, tare, "openat") }, `
5–20 tare: on CPU, own code
20–30 tare: on CPU in the kernel, storage: openat
30–50 tare: on CPU, own code
`},
		{"is preempted", 0, 30, tare, func(t *tape) { t.preempted(10, tare); t.on(25, tare) }, `
0–10 tare: on CPU, own code
10–25 tare: waits for a CPU, own code
25–30 tare: on CPU, own code
`},
		{"yields, so that nobody wakes it", 0, 30, tare, func(t *tape) { t.blocks(10, tare, -1); t.on(25, tare) }, `
0–10 tare: on CPU, own code
10–25 tare: waits for a CPU, own code
25–30 tare: on CPU, own code
`},
		{"is woken by a recorded thread that was blocked itself, until it was woken", 0, 100, tare, func(t *tape) {
			t.wakes(8, tare, daemon, -1, "tare")
			t.blocks(10, tare, 0)
			t.on(12, daemon)
			t.wakes(90, daemon, tare, -1, "dockerd")
			t.on(94, tare)
		}, `
0–10 tare: on CPU, own code
10–12 dockerd: waits for a CPU, own code
12–90 dockerd: on CPU, own code
90–94 tare: waits for a CPU, own code
94–100 tare: on CPU, own code
`},
		{"the waker slept, too, longer than the thread: that time is the thread's", 0, 100, tare, func(t *tape) {
			t.blocks(2, daemon, 0)
			t.blocks(10, tare, 0)
			t.wakes(60, 0, daemon, 1, "swapper/0")
			t.on(61, daemon)
			t.wakes(90, daemon, tare, -1, "dockerd")
			t.on(90, tare)
		}, `
0–10 tare: on CPU, own code
10–60 dockerd: waits, timers: pipe_read
60–61 dockerd: waits for a CPU, own code
61–90 dockerd: on CPU, own code
90–100 tare: on CPU, own code
`},
		{"makes a process and waits for it", 0, 100, tare, func(t *tape) {
			t.fork(10, tare, child)
			t.blocks(20, tare, 0)
			t.on(30, child)
			t.exec(40, child, "/usr/bin/runc")
			t.wakes(90, child, tare, -1, "runc")
			t.on(91, tare)
		}, `
0–20 tare: on CPU, own code
20–30 tare: waits for a CPU, own code
30–40 tare: on CPU, own code
40–90 runc: on CPU, own code
90–91 tare: waits for a CPU, own code
91–100 tare: on CPU, own code
`},
		{"ends in the new process", 0, 100, child, func(t *tape) {
			t.fork(10, tare, child)
			t.on(30, child)
			t.exec(40, child, "/usr/bin/runc")
			t.call(38, 45, child, "execve")
			t.exec(80, child, "/tare-agent")
		}, `
0–10 tare: on CPU, own code
10–30 tare: waits for a CPU, own code
30–38 tare: on CPU, own code
38–40 tare: on CPU in the kernel, program start: execve
40–45 runc: on CPU in the kernel, program start: execve
45–80 runc: on CPU, own code
80–100 tare-agent: on CPU, own code
`},
		{"calls on sockets of the network, and between processes", 0, 60, daemon, func(t *tape) {
			t.call(10, 20, daemon, "sendto")
			t.Events[len(t.Events)-1].Other = 16
			t.call(30, 35, daemon, "sendto")
			t.Events[len(t.Events)-1].Other = 1
			t.blocks(42, daemon, -1)
			t.wakes(48, 15, daemon, 3, "systemd")
			t.on(48, daemon)
			t.call(40, 50, daemon, "recvmsg")
			t.Events[len(t.Events)-1].Other = 16
		}, `
0–10 dockerd: on CPU, own code
10–20 dockerd: on CPU in the kernel, network: sendto
20–30 dockerd: on CPU, own code
30–35 dockerd: on CPU in the kernel, messages: sendto
35–40 dockerd: on CPU, own code
40–42 dockerd: on CPU in the kernel, network: recvmsg
42–48 dockerd: waits, network: recvmsg, woken by systemd
48–50 dockerd: on CPU in the kernel, network: recvmsg
50–60 dockerd: on CPU, own code
`},
		{"is woken by a kernel thread", 0, 100, daemon, func(t *tape) {
			t.blocks(10, daemon, 2)
			t.wakes(80, 15, daemon, 3, "rcu_preempt")
			t.on(82, daemon)
			t.call(5, 90, daemon, "write")
		}, `
0–5 dockerd: on CPU, own code
5–10 dockerd: on CPU in the kernel, other: write
10–80 dockerd: waits, control groups: percpu_down_write, woken by rcu_preempt
80–82 dockerd: waits for a CPU, own code
82–90 dockerd: on CPU in the kernel, other: write
90–100 dockerd: on CPU, own code
`},
		{"is woken by an interrupt in the name of a recorded thread", 0, 100, daemon, func(t *tape) {
			t.blocks(10, daemon, 5)
			t.wakes(80, tare, daemon, 4, "tare")
			t.on(82, daemon)
		}, `
0–10 dockerd: on CPU, own code
10–80 dockerd: waits, storage: jbd2_log_wait_commit
80–82 dockerd: waits for a CPU, own code
82–100 dockerd: on CPU, own code
`},
		{"sleeps, and of who woke it no stack is known", 0, 100, daemon, func(t *tape) {
			t.blocks(10, daemon, 6)
			t.wakes(80, tare, daemon, -1, "tare")
			t.on(80, daemon)
		}, `
0–10 dockerd: on CPU, own code
10–80 dockerd: waits, timers: do_nanosleep
80–100 dockerd: on CPU, own code
`},
		{"is woken by a thread that looks around and has seen what another one did", 0, 100, tare, func(t *tape) {
			t.wakes(8, tare, daemon, -1, "tare")
			t.blocks(10, tare, 0)
			t.on(12, daemon)
			t.blocks(60, daemon, 0)
			t.wakes(70, 0, worker, 1, "swapper/0")
			t.on(70, worker)
			t.wakes(72, worker, tare, -1, "dockerd")
			t.on(72, tare)
			t.blocks(15, worker, 6) // before the others: sorted below
		}, `
0–10 tare: on CPU, own code
10–12 dockerd: waits for a CPU, own code
12–60 dockerd: on CPU, own code
60–70 dockerd: waits, timers: do_nanosleep
70–72 dockerd: on CPU, own code
72–100 tare: on CPU, own code
`},
		{
			"is woken by one that waits for a file and a time and has seen what a program did that its process started",
			0, 100, daemon, func(t *tape) {
				t.on(1, worker)
				t.blocks(7, worker, 7)
				t.fork(8, daemon, child)
				t.blocks(10, daemon, 0)
				t.on(12, child)
				t.exec(20, child, "/usr/lib/cni/bridge")
				t.blocks(30, child, 6)
				t.wakes(50, 0, child, 1, "swapper/0")
				t.on(51, child)
				t.blocks(60, child, -1)
				t.wakes(70, 0, worker, 1, "swapper/0")
				t.on(71, worker)
				t.wakes(75, worker, daemon, -1, "dockerd")
				t.on(75, daemon)
			}, `
0–10 dockerd: on CPU, own code
10–12 dockerd: waits for a CPU, own code
12–20 dockerd: on CPU, own code
20–30 CNI plugin bridge: on CPU, own code
30–50 CNI plugin bridge: waits, timers: do_nanosleep
50–51 CNI plugin bridge: waits for a CPU, own code
51–60 CNI plugin bridge: on CPU, own code
60–70 dockerd: waits, timers: ep_poll
70–71 dockerd: waits for a CPU, own code
71–75 dockerd: on CPU, own code
75–100 dockerd: on CPU, own code
`,
		},
		{"is woken by a program that just slept, while others ran", 0, 100, daemon, func(t *tape) {
			t.fork(5, daemon, child)
			t.blocks(10, daemon, 0)
			t.on(12, child)
			t.exec(14, child, "/usr/bin/sleep")
			t.blocks(16, child, 6)
			t.on(30, worker)
			t.blocks(40, worker, 0)
			t.wakes(80, 0, child, 1, "swapper/0")
			t.on(80, child)
			t.wakes(85, child, daemon, -1, "sleep")
			t.on(86, daemon)
		}, `
0–10 dockerd: on CPU, own code
10–12 dockerd: waits for a CPU, own code
12–14 dockerd: on CPU, own code
14–16 sleep: on CPU, own code
16–80 sleep: waits, timers: do_nanosleep
80–85 sleep: on CPU, own code
85–86 dockerd: waits for a CPU, own code
86–100 dockerd: on CPU, own code
`},
		{"waits for a time itself, while another thread of its process ran: it wakes nobody", 0, 100, daemon, func(t *tape) {
			t.blocks(10, daemon, 7)
			t.on(20, worker)
			t.blocks(60, worker, 0)
			t.wakes(80, 0, daemon, 1, "swapper/0")
			t.on(80, daemon)
		}, `
0–10 dockerd: on CPU, own code
10–80 dockerd: waits, timers: ep_poll
80–100 dockerd: on CPU, own code
`},
		{"was blocked before the recording began", 0, 100, tare, func(t *tape) {
			t.on(1, worker)
			t.wakes(80, worker, tare, -1, "dockerd")
			t.on(80, tare)
		}, `
0–1 dockerd: unknown, other
1–80 dockerd: on CPU, own code
80–100 tare: on CPU, own code
`},
		{"nothing tells why it runs", 0, 100, tare, func(t *tape) { t.on(80, tare) }, `
0–80 tare: unknown, other
80–100 tare: on CPU, own code
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			tape := newTape()
			test.tape(tape)
			slices.SortStableFunc(tape.Events, func(a, b recording.Event) int { return order.Compare(a.At, b.At) })
			tape.on(200, 99) // the recording goes on
			tape.Events[len(tape.Events)-1].OtherProcess = daemon
			h := newHistory(&tape.Recording)
			end := h.threads[test.end]
			if end == nil { // no event says what it did: it has run all the time
				t.Fatal("the thread is not in the history")
			}
			tiles := h.path(end, time.Duration(test.from)*us, time.Duration(test.to)*us, false)
			if d := cmp.Diff(strings.TrimPrefix(test.want, "\n"), told(h, tiles)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// Where tare polls, its looks are no cause: what a program of the trial did last is, and not what daemons do meanwhile.
func TestPathWhereTarePolls(t *testing.T) {
	tape := newTape()
	tape.fork(5, daemon, child)
	tape.on(6, child)
	tape.exec(7, child, "/tare-agent")
	tape.blocks(10, tare, 7)
	tape.wakes(40, 0, tare, 1, "swapper/0")
	tape.on(40, tare) // looks, too early
	tape.blocks(42, tare, 7)
	tape.blocks(60, child, 0) // it listens
	tape.on(70, worker)
	tape.blocks(75, worker, 0)
	tape.wakes(90, 0, tare, 1, "swapper/0")
	tape.on(92, tare)
	tape.preempted(200, tare)
	h := newHistory(&tape.Recording)
	got := told(h, h.path(h.threads[tare], 2*us, 95*us, true))
	want := `2–5 dockerd: on CPU, own code
5–6 dockerd: waits for a CPU, own code
6–7 dockerd: on CPU, own code
7–60 tare-agent: on CPU, own code
60–90 tare: waits, timers: ep_poll
90–92 tare: waits for a CPU, own code
92–95 tare: on CPU, own code
`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// How a process ends is not its own code: the call that ends it does not return.
func TestExitIsACall(t *testing.T) {
	tape := newTape()
	tape.exit(30, daemon)
	e := &tape.Events[0]
	e.Began, e.Text = 10*us, "exit_group"
	tape.wakes(40, daemon, tare, -1, "dockerd")
	tape.preempted(50, daemon)
	h := newHistory(&tape.Recording)
	got := told(h, h.path(h.threads[daemon], 0, 45*us, false))
	want := "0–10 dockerd: on CPU, own code\n10–45 dockerd: on CPU in the kernel, processes: exit_group\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A thread that is not the first of its process becomes it when it executes a program: what it did before is
// still its own.
func TestExecByAnotherThread(t *testing.T) {
	tape := newTape()
	tape.on(5, worker)
	tape.blocks(20, daemon, 0)
	tape.exit(30, daemon)
	e := tape.add(40, recording.Exec, daemon, worker)
	e.Text = "/usr/bin/other"
	tape.preempted(60, daemon)
	h := newHistory(&tape.Recording)
	got := told(h, h.path(h.threads[daemon], 10*us, 50*us, false))
	want := "10–40 dockerd: on CPU, own code\n40–50 other: on CPU, own code\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if last := h.lastLane(daemon); last.ended != h.end {
		t.Errorf("the process ended at %v with its first thread, want %v", last.ended, h.end)
	}
}

// A lane ends with the last process that goes on in it, also if that is not the one that began it.
func TestLaneEndsWithItsLastProcess(t *testing.T) {
	const second, third = 31, 32
	tape := newTape()
	tape.fork(10, daemon, child)
	tape.exec(12, child, "/usr/bin/runc")
	tape.fork(20, child, second)
	tape.exec(22, second, "/proc/self/exe")
	tape.fork(30, second, third)
	tape.exit(40, second)
	tape.exit(50, child)
	tape.exec(70, third, "/tare-agent")
	tape.exit(80, third)
	tape.on(90, daemon)
	want := map[Role]time.Duration{
		"tare": 90 * us, "dockerd": 90 * us, "runc": 50 * us, "runc init": 70 * us, "program": 80 * us,
	}
	for _, l := range newHistory(&tape.Recording).lanes {
		if l.ended != want[l.Role] {
			t.Errorf("%s ends at %v, want %v", l.Role, l.ended, want[l.Role])
		}
		delete(want, l.Role)
	}
	if len(want) > 0 {
		t.Errorf("no lanes of %v", want)
	}
}

// A move between control groups in a write tells what the write was.
func TestGroupMove(t *testing.T) {
	tape := newTape()
	tape.call(5, 9, tare, "write")
	tape.add(15, recording.Group, tare, 0)
	tape.call(10, 20, tare, "write")
	h := newHistory(&tape.Recording)
	got := told(h, h.path(h.threads[tare], 0, 20*us, false))
	want := "0–5 tare: on CPU, own code\n5–9 tare: on CPU in the kernel, other: write\n9–10 tare: on CPU, own code\n" +
		"10–20 tare: on CPU in the kernel, control groups: write\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Whatever the events are, also such as no kernel writes, the path has no gap and no overlap, and ends.
func TestTilesCoverEverything(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		tape := newTape()
		threads := []int{tare, daemon, worker, child, 0, 99}
		at := 0
		for range r.IntN(200) {
			at += r.IntN(3)
			one, other := threads[r.IntN(len(threads))], threads[r.IntN(len(threads))]
			e := tape.add(at, recording.Kind(1+r.IntN(7)), one, other)
			e.Preempted, e.Stack = r.IntN(3) == 0, r.IntN(len(tape.Stacks)+1)-1
			if e.Kind == recording.Call {
				e.Began, e.Text = e.At-time.Duration(r.IntN(30))*us, []string{"read", "mount", "clone"}[r.IntN(3)]
			}
		}
		h := newHistory(&tape.Recording)
		from, to := time.Duration(r.IntN(at+1))*us, time.Duration(at+10)*us
		for _, end := range h.inOrder() {
			now := from
			for i, tile := range h.path(end, from, to, false) {
				if tile.At != now || tile.Duration <= 0 || tile.Lane < 0 || tile.Lane >= len(h.lanes) {
					t.Fatalf("seed %d: tile %d is %+v, and the one before it ends at %v", seed, i, tile, now)
				}
				now = tile.End()
			}
			if now != to {
				t.Fatalf("seed %d: the path ends at %v, not at %v", seed, now, to)
			}
		}
	}
}

func TestRoles(t *testing.T) {
	tape := newTape()
	next := 100
	// start makes a process of another one, which executes a program.
	start := func(by int, file string) int {
		next++
		tape.fork(next, by, next)
		tape.exec(next, next, file)
		return next
	}
	want := map[int]Role{tare: "tare", daemon: "dockerd"}
	shim := start(daemon, "/usr/bin/containerd-shim-runc-v2")
	want[shim] = "shim"
	runc := start(shim, "/usr/bin/runc")
	want[runc] = "runc"
	first := start(runc, "/proc/self/exe")
	want[first] = "runc init"
	tape.exec(next, first, "/proc/self/fd/7")
	want[start(first, "/opt/hooks/start")] = "hook"
	want[start(first, "/bin/program")] = "program"
	want[start(runc, fmt.Sprintf("/proc/%d/exe", daemon))] = "dockerd, again"
	want[start(runc, "/opt/hooks/prestart")] = "hook"
	want[start(runc, "/usr/sbin/iptables-legacy")] = "iptables"
	want[start(daemon, "/usr/lib/cni/bridge")] = "CNI plugin bridge"
	want[start(daemon, "/usr/bin/bridge")] = "bridge"
	want[start(daemon, "/usr/lib/podman/netavark")] = "network plugin netavark"
	want[start(start(daemon, "/proc/self/exe"), "/proc/self/exe")] = "dockerd, again"
	crun := start(daemon, "/usr/bin/crun")
	want[crun] = "crun"
	want[start(crun, "/opt/hooks/prestart")] = "hook"
	want[start(crun, "/opt/hooks/poststart")] = "hook"
	next++
	tape.fork(20, crun, next)
	tape.call(21, 30, next, "setns")
	tape.exec(31, next, "/bin/program")
	want[next] = "program"
	remove := start(daemon, "/usr/bin/crun")
	want[remove] = "crun"
	want[start(remove, "/opt/hooks/poststop")] = "hook"
	h := newHistory(&tape.Recording)
	for process, role := range want {
		if got := h.lastLane(process).Role; got != role {
			t.Errorf("%q: role %q, want %q", h.lastLane(process).Name, got, role)
		}
	}
	if name := h.lastLane(first).Name; name != "runc" {
		t.Errorf("the container's first process is called %q", name)
	}
}

// Each role is known by a program's name, by its file, or by who executes it; what no rule knows keeps its own name.
func TestRolesOfPrograms(t *testing.T) {
	for _, test := range []struct {
		by, file string // who executes the file: a program that dockerd has executed
		want     Role
	}{
		{"", "/usr/bin/dockerd", "dockerd"},
		{"", "/proc/self/exe", "dockerd, again"},
		{"", "/usr/bin/containerd", "containerd"},
		{"/usr/bin/containerd", "/usr/bin/containerd-shim-runc-v2", "shim"},
		{"/usr/bin/containerd", "/usr/bin/containerd-shim", "shim"},
		{"/usr/bin/containerd-shim-runc-v2", "/usr/bin/runc", "runc"},
		{"/usr/bin/runc", "/proc/self/exe", "runc init"},
		{"/usr/bin/runc", "/dev/fd/7", "runc init"},
		{"/usr/bin/runc", "memfd:runc_cloned:/proc/self/exe", "runc init"},
		{"/usr/local/bin/youki", "/usr/bin/crun", "crun"},
		{"/usr/bin/conmon", "/usr/local/bin/youki", "youki"},
		{"/usr/bin/podman", "/usr/bin/conmon", "conmon"},
		{"/usr/bin/podman", "/proc/self/exe", "podman, again"},
		{"", "/usr/bin/podman", "podman"},
		{"/usr/bin/runc", "/usr/share/hooks/nvidia", "hook"},
		{"/usr/bin/crun", "/opt/hooks/prestart", "hook"},
		{"/usr/bin/conmon", "/opt/hooks/prestart", "prestart"},
		{"/usr/bin/runc", "/usr/sbin/iptables", "iptables"},
		{"", "/usr/sbin/iptables", "iptables"},
		{"", "/usr/sbin/iptables-legacy-restore", "iptables"},
		{"", "/usr/sbin/ip6tables", "iptables"},
		{"", "/usr/sbin/xtables-nft-multi", "iptables"},
		{"", "/usr/sbin/ebtables-nft", "iptables"},
		{"", "/usr/sbin/nft", "nft"},
		{"", "/opt/cni/bin/bridge", "CNI plugin bridge"},
		{"", "/usr/lib/cni/host-local", "CNI plugin host-local"},
		{"", "/usr/libexec/cni/of-a-vendor", "CNI plugin of-a-vendor"},
		{"", "/usr/sbin/bridge", "bridge"},
		{"", "/home/cni-tools/bridge", "bridge"},
		{"", "/usr/lib/podman/netavark", "network plugin netavark"},
		{"", "/usr/lib/podman/aardvark-dns", "network plugin aardvark-dns"},
		{"", "/usr/lib/systemd/systemd-udevd", "systemd"},
		{"", "/usr/bin/systemd-run", "systemd"},
		{"", "/usr/bin/fuse-overlayfs", "fuse-overlayfs"},
	} {
		tape := newTape()
		tape.fork(10, daemon, child)
		if test.by != "" {
			tape.exec(11, child, test.by)
		}
		const second = 31
		tape.fork(12, child, second)
		tape.exec(13, second, test.file)
		if got := newHistory(&tape.Recording).lastLane(second).Role; got != test.want {
			t.Errorf("%s executes %s: role %q, want %q", test.by, test.file, got, test.want)
		}
	}
}

func TestClasses(t *testing.T) {
	for class, stack := range map[Class]string{
		Groups:    "percpu_down_write cgroup_procs_write_start vfs_write",
		Network:   "synchronize_rcu_expedited cleanup_net rtnl_lock",
		Names:     "synchronize_rcu namespace_unlock copy_mnt_ns create_new_namespaces",
		Storage:   "synchronize_rcu_expedited namespace_unlock path_umount",
		Messages:  "unix_stream_read_generic sock_recvmsg",
		Processes: "do_wait kernel_wait4",
		Timers:    "do_nanosleep hrtimer_nanosleep",
		Other:     "some_driver_wait vfs_ioctl",
	} {
		if got := classOfStack(strings.Fields(stack)); got != class {
			t.Errorf("%s: %s, want %s", stack, got, class)
		}
	}
	const afUnix, afInet, afNetlink = 1, 2, 16
	for c, class := range map[call]Class{
		{name: "execve"}: Program, {name: "mount"}: Storage, {name: "setns"}: Names, {name: "seccomp"}: Security,
		{name: "write"}: Other, {name: "system call 999"}: Other, {name: "sendto"}: Messages,
		{name: "sendto", family: afUnix}: Messages, {name: "sendto", family: afNetlink}: Network,
		{name: "socket", family: afNetlink}: Network, {name: "recvmsg", family: afNetlink}: Network,
		{name: "setsockopt", family: afInet}: Network,
	} {
		if got := c.class(); got != class {
			t.Errorf("%s on a socket of family %d: %s, want %s", c.name, c.family, got, class)
		}
	}
}
