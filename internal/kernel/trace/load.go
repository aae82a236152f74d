package trace

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/tare-bench/tare/internal/kernel/bpf"
)

// The sizes of the maps.
const (
	defaultBuffer = 16 << 20
	maxFollowed   = 16384 // processes
	maxCalls      = 65536 // threads, with those that have ended in a call
	maxStacks     = 32768 // far more than a trial has: one that hashes like another is in each of its events
	stackDepth    = 32    // functions
)

// license is what the kernel is told of the programs: some of its functions are only for code under the
// GPL or a second licence beside it, which these few instructions have (docs/decisions/040-timeline.md).
const license = "Dual MIT/GPL"

// keptMaps are what the programs share with tare.
type keptMaps struct {
	followed, calls, stacks, events, lost *ebpf.Map
}

// load makes the maps and loads the programs.
func (t *Tracer) load(o Options) error {
	defer bpf.UnlimitMemlock()()
	types := btf.NewCache()
	kernel, err := types.Kernel()
	if err != nil {
		return err
	}
	at, err := offsetsIn(kernel)
	if err != nil {
		return err
	}
	o.Buffer, o.Processes = cmp.Or(o.Buffer, defaultBuffer), cmp.Or(o.Processes, maxFollowed)
	o.Stacks = cmp.Or(o.Stacks, maxStacks)
	if t.kept, err = newMaps(o); err != nil {
		return err
	}
	if t.reader, err = ringbuf.NewReader(t.kept.events); err != nil {
		return err
	}
	specs := map[string]*ebpf.ProgramSpec{}
	for tracepoint, code := range (coder{t.kept.descriptors(), at}).programs() {
		specs[tracepoint] = &ebpf.ProgramSpec{
			Name: "tare_" + tracepoint, Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: tracepoint,
			Instructions: code, License: license,
		}
	}
	all, err := ebpf.NewCollectionWithOptions(
		&ebpf.CollectionSpec{Programs: specs}, ebpf.CollectionOptions{Cache: types},
	)
	if err != nil {
		return err
	}
	t.programs = all.Programs
	return nil
}

func newMaps(o Options) (m keptMaps, err error) {
	for _, one := range []struct {
		to   **ebpf.Map
		spec ebpf.MapSpec
	}{
		{&m.followed, ebpf.MapSpec{
			Name: "tare_followed", Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: uint32(o.Processes),
		}},
		{&m.calls, ebpf.MapSpec{
			Name: "tare_calls", Type: ebpf.Hash, KeySize: 4, ValueSize: 16, MaxEntries: maxCalls,
		}},
		{&m.stacks, ebpf.MapSpec{
			Name: "tare_stacks", Type: ebpf.StackTrace, KeySize: 4, ValueSize: stackSize, MaxEntries: uint32(o.Stacks),
		}},
		{&m.events, ebpf.MapSpec{Name: "tare_events", Type: ebpf.RingBuf, MaxEntries: uint32(o.Buffer)}},
		{&m.lost, ebpf.MapSpec{Name: "tare_lost", Type: ebpf.Array, KeySize: 4, ValueSize: lostSize, MaxEntries: 1}},
	} {
		if *one.to, err = ebpf.NewMap(&one.spec); err != nil {
			return keptMaps{}, errors.Join(fmt.Errorf("map %s: %w", one.spec.Name, err), m.close())
		}
	}
	return m, nil
}

func (m *keptMaps) all() []*ebpf.Map {
	return []*ebpf.Map{m.followed, m.calls, m.stacks, m.events, m.lost}
}

func (m *keptMaps) close() error {
	var errs []error
	for _, one := range m.all() {
		if one != nil {
			errs = append(errs, one.Close())
		}
	}
	return errors.Join(errs...)
}

func (m *keptMaps) descriptors() descriptors {
	return descriptors{m.followed.FD(), m.calls.FD(), m.stacks.FD(), m.events.FD(), m.lost.FD()}
}

// empty forgets what an earlier trial has left: a call that it began would seem to have lasted until now,
// and its stacks take the room of others.
func (m *keptMaps) empty() error {
	for _, one := range []*ebpf.Map{m.followed, m.calls, m.stacks} {
		var key uint32
		for {
			err := one.NextKey(nil, &key)
			if errors.Is(err, ebpf.ErrKeyNotExist) {
				break
			}
			if err != nil {
				return err
			}
			if err := one.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return err
			}
		}
	}
	return m.lost.Put(uint32(0), lost{})
}

// lost is the value of the map of what was lost.
type lost struct{ Events, Stacks uint64 }

// offsetsIn finds the fields that the programs read.
func offsetsIn(kernel *btf.Spec) (o offsets, err error) {
	for _, one := range []struct {
		to            *int16
		holder, field string
	}{
		{&o.thread, "task_struct", "pid"},
		{&o.process, "task_struct", "tgid"},
		{&o.file, "linux_binprm", "filename"},
		{&o.argument, "pt_regs", firstArgument},
		{&o.toFiles[0], "task_struct", "files"},
		{&o.toFiles[1], "files_struct", "fdt"},
		{&o.toFiles[2], "fdtable", "fd"},
		{&o.toFamily[0], "file", "private_data"},
		{&o.toFamily[1], "socket", "sk"},
		{&o.toFamily[2], "sock_common", "skc_family"},
	} {
		if *one.to, err = offsetOf(kernel, one.holder, one.field); err != nil {
			return o, err
		}
	}
	return o, nil
}

func offsetOf(kernel *btf.Spec, holder, field string) (int16, error) {
	var s *btf.Struct
	if err := kernel.TypeByName(holder, &s); err != nil {
		return 0, fmt.Errorf("type of the kernel's %s: %w", holder, err)
	}
	for _, m := range s.Members {
		if at := m.Offset.Bytes(); m.Name == field && at < 1<<15 {
			return int16(at), nil
		}
	}
	return 0, fmt.Errorf("the kernel's %s has no %s that a program can read", holder, field)
}
