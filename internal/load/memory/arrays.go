package memory

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/turn"
)

// The kinds of pages for arrays.
const (
	Normal      = "normal"      // of the smallest size, even if the kernel would make huge ones by itself
	Transparent = "transparent" // huge pages that the kernel makes by itself
	Huge        = "huge"        // reserved huge pages
)

// Pages returns the kinds of pages.
func Pages() []string { return []string{Normal, Transparent, Huge} }

// wordSize is the size of a word, in bytes.
const wordSize = 8

// arrays are three arrays of the same size, outside of Go's heap.
type arrays struct {
	memory []byte
	words  [3][]uint64
	pages  string
}

// newArrays maps the arrays and sets every word to 1; each part is touched by the thread
// that will use it.
func newArrays(o options) (*arrays, error) {
	const page = 2 << 20 // the size of a huge page on most machines
	stride := (o.size + page - 1) / page * page
	memory, err := mapped(3*stride, o.pages)
	if err != nil {
		return nil, err
	}
	a := &arrays{memory: memory, pages: o.pages}
	for i := range a.words {
		first := (*uint64)(unsafe.Pointer(&memory[i*stride]))
		a.words[i] = unsafe.Slice(first, o.size/wordSize)
	}
	err = errors.Join(a.fillAll(o.threads), a.check())
	if err != nil {
		return nil, errors.Join(err, syscall.Munmap(memory))
	}
	return a, nil
}

func (a *arrays) free() { _ = syscall.Munmap(a.memory) } // on an error, the memory stays until the process ends

func mapped(size int, pages string) ([]byte, error) {
	flags := syscall.MAP_PRIVATE | syscall.MAP_ANON
	if pages == Huge {
		flags |= syscall.MAP_HUGETLB
	}
	memory, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, flags)
	switch {
	case err != nil && pages == Huge:
		return nil, noHuge(size, err)
	case err != nil:
		return nil, fmt.Errorf("map %d MiB of memory: %w", size>>20, err)
	case pages == Huge:
		return memory, nil
	}
	err = syscall.Madvise(memory, madviseFor(pages))
	if err != nil && pages == Transparent {
		return nil, errors.Join(fmt.Errorf("pages=transparent: the kernel has no transparent huge pages: %w",
			err), syscall.Munmap(memory))
	}
	return memory, nil // a kernel without transparent huge pages uses normal ones
}

func noHuge(size int, err error) error {
	return fmt.Errorf("pages=huge: needs %d MiB of free huge pages (HugePages_Free in /proc/meminfo): "+
		"reserve more with sysctl vm.nr_hugepages, or use a smaller size: %w", size>>20, err)
}

// The advice values of madvise(2), which package syscall lacks.
const (
	adviseHuge   = 14
	adviseNoHuge = 15
)

func madviseFor(pages string) int {
	if pages == Transparent {
		return adviseHuge
	}
	return adviseNoHuge
}

// fillAll fills the arrays. If a control group limits huge pages, the process only notices
// it here, by a signal.
func (a *arrays) fillAll(threads int) error {
	errs := make([]error, threads)
	load.RunThreads(nil, threads, func(i int, _ *turn.Clock) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() {
			if fault := recover(); fault != nil {
				errs[i] = fmt.Errorf("pages=%s: the kernel refused memory that it had granted; "+
					"perhaps a control group limits huge pages (hugetlb): %v", a.pages, fault)
			}
		}()
		for _, words := range a.words {
			fill(part(words, i, threads), 1)
		}
	})
	return errors.Join(errs...)
}

// part returns the part of one of several threads, in whole blocks.
func part(words []uint64, i, threads int) []uint64 {
	each := len(words) / threads / block * block
	return words[i*each : (i+1)*each]
}

// check returns an error if transparent huge pages were requested but not provided.
func (a *arrays) check() error {
	if huge, ok := hugeBytes(); a.pages == Transparent && ok && huge < int64(len(a.memory))/2 {
		return fmt.Errorf("pages=transparent: only %d of %d MiB are in huge pages: free memory may be fragmented, "+
			"or /sys/kernel/mm/transparent_hugepage/enabled may be never", huge>>20, len(a.memory)>>20)
	}
	return nil
}

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
