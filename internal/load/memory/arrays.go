package memory

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/turn"
)

// The kinds of pages for arrays.
const (
	Normal      = "normal"      // of the smallest size, even if the kernel would make huge ones by itself
	Transparent = "transparent" // huge pages that the kernel makes by itself
	Auto        = "auto"        // the same, or normal ones if it has too few
	Huge        = "huge"        // reserved huge pages
)

// Pages returns the kinds of pages.
func Pages() []string { return []string{Normal, Transparent, Huge, Auto} }

// wordSize is the size of a word, in bytes.
const wordSize = 8

// arrays are three arrays of the same size, outside of Go's heap.
type arrays struct {
	words    [3][]uint64
	mappings [3][]byte // that the words are in
	pages    string
	threads  int
}

// newArrays maps the arrays and sets every word to 1. With several NUMA nodes, each part is touched by the thread that will
// use it.
func newArrays(o options) (*arrays, error) {
	a := &arrays{pages: o.pages, threads: o.threads}
	for i := range a.words {
		if err := a.remap(i, o.size); err != nil {
			a.free()
			return nil, err
		}
	}
	if err := a.check(); err != nil {
		a.free()
		return nil, err
	}
	return a, nil
}

// renew gives each array other pages of memory, and sets every word to 1. An array's pages are freed only
// after those of its successor were touched: the kernel would give it the same ones again.
func (a *arrays) renew() error {
	for i, words := range a.words {
		if err := a.remap(i, len(words)*wordSize); err != nil {
			return err
		}
	}
	return a.check()
}

// remap puts a new array in the place of one, if there is one.
func (a *arrays) remap(i, size int) error {
	mapping, err := mapped(size, a.pages)
	if err != nil {
		return err
	}
	old := a.mappings[i]
	a.mappings[i], a.words[i] = mapping, aligned(mapping, size)
	if err := a.fill(a.words[i]); err != nil || old == nil {
		return err
	}
	return unix.Munmap(old)
}

func (a *arrays) free() {
	for _, mapping := range a.mappings {
		if mapping != nil {
			_ = unix.Munmap(mapping) // on an error, the memory stays until the process ends
		}
	}
}

// hugePage is the size of a huge page on most machines.
const hugePage = 2 << 20

// aligned returns the words of an array, which begins where a huge page can begin.
func aligned(mapping []byte, size int) []uint64 {
	at := uintptr(unsafe.Pointer(&mapping[0]))
	skip := (hugePage - at%hugePage) % hugePage
	return unsafe.Slice((*uint64)(unsafe.Pointer(&mapping[skip])), size/wordSize)
}

// mapped maps memory for an array, with room to align it.
func mapped(size int, pages string) ([]byte, error) {
	flags, room := unix.MAP_PRIVATE|unix.MAP_ANON, (size+2*hugePage-1)/hugePage*hugePage
	if pages == Huge {
		flags, room = flags|unix.MAP_HUGETLB, (size+hugePage-1)/hugePage*hugePage
	}
	memory, err := unix.Mmap(-1, 0, room, unix.PROT_READ|unix.PROT_WRITE, flags)
	switch {
	case err != nil && pages == Huge:
		return nil, noHuge(3*room, err)
	case err != nil:
		return nil, fmt.Errorf("map %d MiB of memory: %w", size>>20, err)
	case pages == Huge:
		return memory, nil
	}
	err = unix.Madvise(memory, madviseFor(pages))
	if err != nil && pages == Transparent {
		return nil, errors.Join(fmt.Errorf("pages=transparent: the kernel has no transparent huge pages: %w",
			err), unix.Munmap(memory))
	}
	return memory, nil // a kernel without transparent huge pages uses normal ones
}

func noHuge(size int, err error) error {
	return fmt.Errorf("pages=huge: needs %d MiB of free huge pages (HugePages_Free in /proc/meminfo): "+
		"reserve more with sysctl vm.nr_hugepages, or use a smaller size: %w", size>>20, err)
}

func madviseFor(pages string) int {
	if pages == Transparent || pages == Auto {
		return unix.MADV_HUGEPAGE
	}
	return unix.MADV_NOHUGEPAGE
}

// fill fills an array. If a control group limits huge pages, the process only notices it here, by
// a signal.
func (a *arrays) fill(words []uint64) error {
	if a.pages != Normal && nodes() == 1 {
		a.populateByAll(words)
	}
	errs := make([]error, a.threads)
	_ = load.RunThreads(nil, a.threads, func(i int, _ *turn.Clock) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() {
			if fault := recover(); fault != nil {
				errs[i] = fmt.Errorf("pages=%s: the kernel refused memory that it had granted; "+
					"perhaps a control group limits huge pages (hugetlb): %v", a.pages, fault)
			}
		}()
		own := part(words, i, a.threads)
		populate(own)
		fill(own, 1)
	})
	return errors.Join(errs...)
}

// populateByAll is populate by a thread for each CPU. If a hypervisor has taken back what was free, it gives huge pages
// at some 0.4 GB/s and CPU. Normal pages are not provided so: they would be those that two CPUs had last.
func (a *arrays) populateByAll(words []uint64) {
	threads := load.CPUs()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
	var all sync.WaitGroup
	for i := range threads {
		if own := part(words, i, threads); len(own) > 0 {
			all.Go(func() { populate(own) })
		}
	}
	all.Wait()
}

// nodes is the number of NUMA nodes; 0 if the kernel does not tell. On several, memory is where the thread is that
// touches it first.
func nodes() int {
	all, _ := filepath.Glob("/sys/devices/system/node/node[0-9]*") // the pattern is well formed
	return len(all)
}

// populate lets the kernel provide all pages of a part at once, which takes half as long as one page fault
// for each. A kernel before 5.14 does not know how: then the pages come one by one.
func populate(words []uint64) {
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*wordSize)
	_ = unix.Madvise(memory, unix.MADV_POPULATE_WRITE)
}

// part returns the part of one of several threads, in whole blocks.
func part(words []uint64, i, threads int) []uint64 {
	each := len(words) / threads / block * block
	return words[i*each : (i+1)*each]
}

// check returns an error if transparent huge pages were requested but not provided.
func (a *arrays) check() error {
	if a.pages == Transparent && a.hasFewHuge(0.5) {
		huge, _ := hugeBytes()
		return fmt.Errorf("pages=transparent: only %d of %d MiB are in huge pages: free memory may be fragmented, "+
			"or /sys/kernel/mm/transparent_hugepage/enabled may be never", huge>>20, a.size()>>20)
	}
	return nil
}

// mostHuge is the share of the arrays that is in huge pages at least where they are said to be.
const mostHuge = 0.9

// hasFewHuge reports whether less than a share of the arrays is in huge pages, if the kernel tells.
func (a *arrays) hasFewHuge(share float64) bool {
	huge, ok := hugeBytes()
	return ok && float64(huge) < share*float64(a.size())
}

// size is the size of all arrays together, in bytes.
func (a *arrays) size() int64 { return int64(len(a.words) * len(a.words[0]) * wordSize) }

func (a *arrays) facts(facts map[string]string) {
	facts[FactSize] = strconv.Itoa(len(a.words[0]) * wordSize)
	facts[FactPages] = a.pages
	if huge, ok := hugeBytes(); ok && a.pages != Huge {
		facts[FactHuge] = strconv.FormatInt(huge, 10)
	}
}

// hugeBytes returns how many bytes of this process are in transparent huge pages; false
// if the kernel does not tell.
func hugeBytes() (int64, bool) {
	f, err := os.Open("/proc/self/smaps_rollup")
	if err != nil {
		return 0, false
	}
	defer func() { _ = f.Close() }() // nothing was written
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if n, ok := strings.CutPrefix(lines.Text(), "AnonHugePages:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(n, "kB")), 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}
