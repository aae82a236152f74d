package proc

import (
	"path/filepath"
	"strconv"
	"strings"
)

// LastLevelCache returns the size of the first CPU's last-level cache in bytes; 0 if the kernel
// does not tell. Other CPUs may share this cache or have their own.
func LastLevelCache(root string) int64 {
	// The pattern is well formed.
	files, _ := filepath.Glob(filepath.Join(root, "sys/devices/system/cpu/cpu0/cache/index*/size"))
	largest := int64(0)
	for _, f := range files {
		text, _ := readFile(f) // an unreadable file counts as unknown
		largest = max(largest, parseCacheSize(string(text)))
	}
	return largest
}

// MakesHugePages reports whether the kernel makes huge pages of 2 MiB, or smaller ones, for programs that ask for them.
func MakesHugePages(root string) bool {
	dir := filepath.Join(root, "sys/kernel/mm/transparent_hugepage")
	enabled, err := readFile(filepath.Join(dir, "enabled"))
	if err != nil || strings.Contains(string(enabled), "[never]") {
		return false
	}
	ofSize, _ := readFile(filepath.Join(dir, "hugepages-2048kB/enabled")) // not before Linux 6.8
	if strings.Contains(string(ofSize), "[never]") {
		return false
	}
	size, err := readFile(filepath.Join(dir, "hpage_pmd_size"))
	bytes, notNumber := strconv.ParseUint(strings.TrimSpace(string(size)), 10, 63)
	return err != nil || notNumber == nil && bytes <= 2<<20
}

// parseCacheSize reads a size as the kernel prints it, such as "32768K"; 0 for
// anything else.
func parseCacheSize(text string) int64 {
	digits, ok := strings.CutSuffix(strings.TrimSpace(text), "K")
	kib, err := strconv.ParseUint(digits, 10, 40)
	if !ok || err != nil {
		return 0
	}
	return int64(kib) << 10
}
