package trace_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/recording"
	"github.com/tare-bench/tare/internal/kernel/trace"
)

// open opens a tracer, or ends the test where this is not allowed and nobody said it is.
func open(t *testing.T, o trace.Options) *trace.Tracer {
	t.Helper()
	tracer, err := trace.Open(o)
	if err != nil {
		if os.Geteuid() != 0 && errors.Is(err, bench.ErrUnsupported) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tracer.Close(); err != nil {
			t.Error(err)
		}
	})
	return tracer
}

// now is CLOCK_MONOTONIC.
func now(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// record is what a tracer records of a function, as a sample would keep it, and how long the function took.
func record(t *testing.T, tracer *trace.Tracer, f func()) (*recording.Recording, time.Duration) {
	t.Helper()
	began := now(t)
	tracer.Begin(bench.Trial{Traced: true}, began)
	f()
	took := now(t) - began
	tracer.End(nil)
	kept := &bench.Trace{Events: slices.Collect(tracer.Trace())}
	r, err := recording.Decode(kept)
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed != "" {
		t.Fatal(r.Failed)
	}
	return r, took
}

func run(t *testing.T, argv ...string) {
	t.Helper()
	if text, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%q: %v\n%s", argv, err, text)
	}
}

// A program that is started, what it starts and what it waits for is all there, in order.
func TestRecord(t *testing.T) {
	tracer := open(t, trace.Options{})
	r, took := record(t, tracer, func() { run(t, "/bin/sh", "-c", "sleep 0.02; true") })
	if r.Lost != 0 || len(r.Processes) == 0 || !r.Processes[0].Tare || r.Processes[0].ID != os.Getpid() {
		t.Errorf("%d events lost, processes %v", r.Lost, r.Processes)
	}
	find := func(what string, is func(e *recording.Event) bool) *recording.Event {
		t.Helper()
		i := slices.IndexFunc(r.Events, func(e recording.Event) bool { return is(&e) })
		if i < 0 {
			t.Fatalf("no %s among %d events", what, len(r.Events))
		}
		return &r.Events[i]
	}
	executed := func(name string) *recording.Event {
		t.Helper()
		return find("execution of "+name, func(e *recording.Event) bool {
			return e.Kind == recording.Exec && filepath.Base(e.Text) == name
		})
	}
	sh, sleep := executed("sh"), executed("sleep")
	find("fork of sh", func(e *recording.Event) bool {
		return e.Kind == recording.Fork && e.Process == os.Getpid() && e.OtherProcess == sh.Process && e.At < sh.At
	})
	find("fork of sleep", func(e *recording.Event) bool {
		return e.Kind == recording.Fork && e.Process == sh.Process && e.OtherProcess == sleep.Process && e.At < sleep.At
	})
	find("execve", func(e *recording.Event) bool {
		return e.Kind == recording.Call && e.Text == "execve" && e.Process == sleep.Process && e.Began < sleep.At && e.At > sleep.At
	})
	exit := find("end of sleep", func(e *recording.Event) bool { return e.Kind == recording.Exit && e.Process == sleep.Process })
	if exit.Text != "exit_group" || exit.Began <= sleep.At || exit.Began >= exit.At {
		t.Errorf("it ended in %q, which began at %v, and was at %v", exit.Text, exit.Began, exit.At)
	}
	if slept := exit.At - sleep.At; slept < 20*time.Millisecond || slept > took {
		t.Errorf("it slept for %v of %v", slept, took)
	}
	left := find("switch away from sleep while it sleeps", func(e *recording.Event) bool {
		return e.Kind == recording.Switch && e.Thread == sleep.Thread && e.Stack >= 0 &&
			slices.Contains(r.Stacks[e.Stack], "hrtimer_nanosleep")
	})
	woken := find("wake-up by the timer", func(e *recording.Event) bool {
		return e.Kind == recording.Wake && e.Other == sleep.Thread && e.At > left.At && e.Stack >= 0 &&
			slices.ContainsFunc(r.Stacks[e.Stack], func(f string) bool { return strings.HasPrefix(f, "hrtimer_") })
	})
	if slept := woken.At - left.At; slept < 15*time.Millisecond {
		t.Errorf("it was woken after %v", slept)
	}
	find("wake-up of sh by the end of sleep", func(e *recording.Event) bool {
		return e.Kind == recording.Wake && e.Thread == sleep.Thread && e.Other == sh.Thread
	})
	if !slices.IsSortedFunc(r.Events, func(a, b recording.Event) int { return int(a.At - b.At) }) {
		t.Error("events are out of order")
	}
	if first, last := r.Events[0].At, r.Events[len(r.Events)-1].At; first < 0 || last > took+time.Second {
		t.Errorf("events from %v to %v of a trial of %v", first, last, took)
	}
}

// The call of a thread that executes a program, and so becomes the first of its process, is execve, and not what the
// first one was in.
func TestExecByAnotherThread(t *testing.T) {
	if os.Getenv(executes) != "" {
		executeElsewhere()
	}
	tracer := open(t, trace.Options{})
	r, _ := record(t, tracer, func() {
		cmd := exec.Command("/proc/self/exe", "-test.run", "^TestExecByAnotherThread$")
		cmd.Env = append(os.Environ(), executes+"=1")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	})
	i := slices.IndexFunc(r.Events, func(e recording.Event) bool {
		return e.Kind == recording.Exec && e.Other != e.Thread
	})
	if i < 0 {
		t.Fatal("no other thread than the first has executed a program")
	}
	at := r.Events[i]
	for _, e := range r.Events[i:] {
		if e.Kind == recording.Call && e.Thread == at.Thread {
			if e.Text != "execve" || e.Began >= at.At {
				t.Errorf("the program was executed at %v by %s from %v", at.At, e.Text, e.Began)
			}
			return
		}
	}
	t.Error("the call that executed the program is not recorded")
}

const executes = "TARE_TEST_TRACE_EXEC"

// executeElsewhere executes a program in a thread that is not the first.
func executeElsewhere() {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		go executeElsewhere()
		select {} // keeps the first thread
	}
	_ = syscall.Exec("/bin/true", []string{"true"}, nil) // it returns for an error alone
	os.Exit(2)
}

// A trial that is not traced costs nothing and has no recording; what an earlier one left is not seen again.
func TestTrialsAreApart(t *testing.T) {
	tracer := open(t, trace.Options{})
	tracer.Begin(bench.Trial{}, now(t))
	run(t, "true")
	tracer.End(nil)
	for e := range tracer.Trace() {
		t.Errorf("a trial that was not traced has %s", e.Name)
	}
	record(t, tracer, func() { run(t, "true") })
	run(t, "true") // nobody watches
	r, _ := record(t, tracer, func() {})
	for _, e := range r.Events {
		if e.Kind == recording.Exec || e.At < 0 {
			t.Errorf("the second recording has %+v", e)
		}
	}
}

// What a process that is followed as a daemon starts is followed, and no other process.
func TestDaemons(t *testing.T) {
	tracer := open(t, trace.Options{})
	cmd := exec.Command("cat") // stands for a daemon, below this process: so it is followed anyway
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(in.Close(), cmd.Wait()) }() // it only reads
	r, _ := record(t, tracer, func() {})
	if !slices.ContainsFunc(r.Processes, func(p recording.Process) bool {
		return p.ID == cmd.Process.Pid && p.Name == "cat" && p.Parent == os.Getpid() && !p.Tare
	}) {
		t.Errorf("a child is not among %v", r.Processes)
	}
	for _, p := range r.Processes {
		if p.ID == 1 {
			t.Error("the first process of the machine is followed")
		}
	}
}

// Processes that are started while tracing begins are followed, too: each whose end wakes one that is followed has been
// there or has a fork.
func TestProcessesStartedMeanwhile(t *testing.T) {
	tracer := open(t, trace.Options{})
	const many = "i=0; while [ $i -lt 40 ]; do (while :; do sleep 0.2; done) & i=$((i+1)); done; wait"
	cmd := exec.Command("/bin/sh", "-c", many)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
	}()
	time.Sleep(200 * time.Millisecond) // so that all of them run
	ends := func(function string) bool { return function == "do_notify_parent" }
	for range 4 {
		r, _ := record(t, tracer, func() { time.Sleep(300 * time.Millisecond) })
		known := map[int]bool{}
		for _, p := range r.Processes {
			known[p.ID] = true
		}
		ended := 0
		for _, e := range r.Events {
			switch {
			case e.Kind == recording.Fork:
				known[e.OtherProcess] = true
			case e.Kind == recording.Wake && e.Stack >= 0 && slices.ContainsFunc(r.Stacks[e.Stack], ends):
				ended++
				if !known[e.Process] {
					t.Errorf("process %d was not followed, and has ended after %v", e.Process, e.At)
				}
			}
		}
		if ended < 20 {
			t.Errorf("only %d processes have ended", ended)
		}
	}
}

// A buffer that is too small loses events, and says how many.
func TestLostEventsAreCounted(t *testing.T) {
	tracer := open(t, trace.Options{Buffer: 64 << 10})
	r, _ := record(t, tracer, func() {
		run(t, "/bin/sh", "-c", "i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i+1)); done")
	})
	if r.Lost == 0 || len(r.Events) < 100 || len(r.Events) > 64<<10/48 {
		t.Errorf("%d events, %d lost", len(r.Events), r.Lost)
	}
	if r, _ := record(t, tracer, func() {}); r.Lost != 0 {
		t.Errorf("the next recording has lost %d, too", r.Lost)
	}
}

// Where the kernel has room for one stack only, every other one is in its events: none is missing, and none is wrong.
func TestStacksWithoutRoomAreKept(t *testing.T) {
	tracer := open(t, trace.Options{Stacks: 1})
	r, _ := record(t, tracer, func() { run(t, "/bin/sh", "-c", "sleep 0.01; sleep 0.01; true") })
	if r.NoStack != 0 || r.Lost != 0 || len(r.Stacks) < 10 {
		t.Errorf("%d stacks, %d without, %d events lost", len(r.Stacks), r.NoStack, r.Lost)
	}
	slept := map[int]bool{} // by thread
	followed := map[int]bool{os.Getpid(): true}
	for _, e := range r.Events {
		switch {
		case e.Kind == recording.Fork:
			followed[e.OtherProcess] = true
		case e.Kind == recording.Wake && e.Stack < 0,
			e.Kind == recording.Switch && followed[e.Process] && !e.Preempted && e.Stack < 0:
			t.Errorf("no stack of %+v", e)
		case e.Kind == recording.Switch && e.Stack >= 0 && slices.Contains(r.Stacks[e.Stack], "hrtimer_nanosleep"):
			slept[e.Thread] = true
		}
	}
	if len(slept) < 2 {
		t.Errorf("of two programs that sleep, %d have the stack of it", len(slept))
	}
}

// Of a system call on a socket, its family is known: netlink is told from a socket between processes.
func TestFamiliesOfSockets(t *testing.T) {
	tracer := open(t, trace.Options{})
	r, _ := record(t, tracer, func() {
		for range 20 { // one that took less than 5 µs is no event
			netlink(t)
			between(t)
		}
	})
	families := map[string]map[int]int{}
	for _, e := range r.Events {
		if e.Kind == recording.Call && e.Process == os.Getpid() {
			if families[e.Text] == nil {
				families[e.Text] = map[int]int{}
			}
			families[e.Text][e.Other]++
		}
	}
	for call, n := range families {
		want := map[string]int{
			"socket": unix.AF_NETLINK, "sendto": unix.AF_NETLINK, "recvfrom": unix.AF_NETLINK, "sendmsg": unix.AF_UNIX,
		}[call] // others are on no socket
		if n[want] == 0 || len(n) != 1 {
			t.Errorf("calls of %s by family: %v, want only %d", call, n, want)
		}
	}
	for _, call := range []string{"sendto", "sendmsg"} {
		if families[call] == nil {
			t.Errorf("none of 20 calls of %s took 5 µs", call)
		}
	}
}

// netlink lists the interfaces of the network.
func netlink(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }() // it was only read
	ask := make([]byte, unix.SizeofNlMsghdr+unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(ask, uint32(len(ask)))
	binary.NativeEndian.PutUint16(ask[4:], unix.RTM_GETLINK)
	binary.NativeEndian.PutUint16(ask[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	if err := unix.Sendto(fd, ask, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := unix.Recvfrom(fd, make([]byte, 64<<10), 0); err != nil {
		t.Fatal(err)
	}
}

// between sends a large message between two sockets of this process.
func between(t *testing.T) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(unix.Close(fds[0]), unix.Close(fds[1])) }() // nothing is written
	if err := unix.Sendmsg(fds[0], make([]byte, 100<<10), nil, nil, 0); err != nil {
		t.Fatal(err)
	}
}

// A process for which there is no room has no events, and that is told.
func TestProcessesWithoutRoomAreCounted(t *testing.T) {
	tracer := open(t, trace.Options{Processes: 1}) // this one
	r, _ := record(t, tracer, func() { run(t, "true") })
	executes := func(e recording.Event) bool { return e.Kind == recording.Exec }
	if followed := slices.ContainsFunc(r.Events, executes); r.Lost == 0 || followed {
		t.Errorf("%d lost, and the program is followed: %v", r.Lost, followed)
	}
	if r, _ := record(t, tracer, func() {}); r.Lost != 0 {
		t.Errorf("the next recording has lost %d, too", r.Lost)
	}
}

const attachedMark = "TARE_TEST_TRACE_ATTACHED"

// A process that is killed while it traces leaves no program in the kernel.
func TestKilled(t *testing.T) {
	if os.Getenv(attachedMark) != "" {
		attachForever(t)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	cmd := exec.Command("/proc/self/exe", "-test.run", "^TestKilled$")
	cmd.Env = append(os.Environ(), attachedMark+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ids []ebpf.ProgramID
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "attached"; {
		if id, err := strconv.Atoi(lines.Text()); err == nil {
			ids = append(ids, ebpf.ProgramID(id))
		}
	}
	err = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait() // it was killed
	if err != nil || len(ids) < 9 {
		t.Fatalf("%v; it had the programs %v", err, ids)
	}
	for _, id := range ids {
		until := time.Now().Add(5 * time.Second) // the kernel frees them a little later
		for {
			p, err := ebpf.NewProgramFromID(id)
			if errors.Is(err, os.ErrNotExist) {
				break
			}
			if err == nil {
				err = p.Close()
			}
			if err != nil || time.Now().After(until) {
				t.Errorf("program %d is still there: %v", id, err)
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// attachForever prints the programs that tracing adds to the kernel, and then waits to be killed.
func attachForever(t *testing.T) {
	before := programsHere(t)
	tracer := open(t, trace.Options{})
	tracer.Begin(bench.Trial{Traced: true}, now(t))
	for id := range programsHere(t) {
		if !before[id] {
			if _, err := os.Stdout.WriteString(strconv.Itoa(int(id)) + "\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := os.Stdout.WriteString("attached\n"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	t.Fatal("nobody killed it")
}

// programsHere are tare's programs in the kernel.
func programsHere(t *testing.T) map[ebpf.ProgramID]bool {
	t.Helper()
	all := map[ebpf.ProgramID]bool{}
	id := ebpf.ProgramID(0)
	for {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue // it has gone meanwhile
		}
		info, err := p.Info()
		if err == nil && strings.HasPrefix(info.Name, "tare_") {
			all[id] = true
		}
		_ = p.Close() // it was only looked at
	}
}

// Who may not is told what it takes.
func TestOpenAsAnOrdinaryUser(t *testing.T) {
	if os.Getenv(asUser) != "" {
		tracer, err := trace.Open(trace.Options{})
		if err == nil {
			t.Fatal(errors.Join(errors.New("allowed"), tracer.Close()))
		}
		if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), "needs root, or CAP_BPF, CAP_PERFMON and CAP_SYSLOG: ") {
			t.Fatal(err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to become another user")
	}
	again(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}, asUser)
}

// Where processes have other numbers, nothing is traced.
func TestOpenInAPIDNamespace(t *testing.T) {
	if os.Getenv(inNamespace) != "" {
		tracer, err := trace.Open(trace.Options{})
		if err == nil {
			t.Fatal(errors.Join(errors.New("allowed"), tracer.Close()))
		}
		if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), "PID namespace") {
			t.Fatal(err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a PID namespace")
	}
	again(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}, inNamespace)
}

const (
	asUser      = "TARE_TEST_TRACE_USER"
	inNamespace = "TARE_TEST_TRACE_NAMESPACE"
)

// again runs the test that calls it in another process.
func again(t *testing.T, as *syscall.SysProcAttr, mark string) {
	t.Helper()
	self, err := os.Open("/proc/self/exe") // its directory may not be everybody's
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = self.Close() }() // it was only read
	cmd := exec.Command("/proc/self/fd/3", "-test.run", "^"+t.Name()+"$")
	cmd.ExtraFiles, cmd.SysProcAttr, cmd.Dir = []*os.File{self}, as, "/"
	cmd.Env = append(os.Environ(), mark+"=1")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}
