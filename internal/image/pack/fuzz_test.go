package pack

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fullCache is a cache with everything that one can have.
func fullCache() *cache {
	return &cache{
		entries: []cacheEntry{
			{flags: 0x0303, name: "libone.so", path: "/opt/glibc-hwcaps/x86-64-v3/libone.so", hwcap: hwcapsBit | 1},
			{flags: 0x0303, name: "libone.so", path: "/opt/libone.so"},
			{flags: 0x0003, name: "libone.so", path: "/opt/32/libone.so", osVersion: 0x20600},
		},
		cpus: []string{"x86-64-v2", "x86-64-v3"},
	}
}

func bytesOf(c *cache) []byte {
	var b bytes.Buffer
	c.write(&b)
	return b.Bytes()
}

func TestCacheFormat(t *testing.T) {
	same := cmp.AllowUnexported(cache{}, cacheEntry{}, place{})
	want := fullCache()
	for name, raw := range map[string][]byte{
		"new": bytesOf(want),
		// Two entries of 12 bytes, which leave no gap before the newer format.
		"old before new": append([]byte("ld.so-1.7.0\x00\x02\x00\x00\x00"+string(make([]byte, 24))), bytesOf(want)...),
		"with a gap":     append([]byte("ld.so-1.7.0\x00\x01\x00\x00\x00"+string(make([]byte, 16))), bytesOf(want)...),
	} {
		got, err := parseCache(raw)
		if diff := cmp.Diff(want, got, same); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	places := []place{{"/opt/glibc-hwcaps/x86-64-v3/libone.so", true}, {"/opt/libone.so", false}}
	if diff := cmp.Diff(places, want.places("libone.so", 0x0303), same); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	plain := want.only(func(e cacheEntry) bool { return e.hwcap == 0 })
	if len(plain.entries) != 2 || plain.cpus != nil {
		t.Errorf("entries for all CPUs = %+v", plain)
	}
}

func TestCacheRefused(t *testing.T) {
	good := bytesOf(fullCache())
	change := func(at int, to ...byte) []byte {
		raw := bytes.Clone(good)
		copy(raw[at:], to)
		return raw
	}
	for name, raw := range map[string][]byte{
		"empty":                 {},
		"other magic":           change(0, 'x'),
		"no header":             good[:40],
		"too many entries":      change(20, 0xff, 0xff, 0xff, 0xff),
		"big-endian":            change(28, 3),
		"name outside":          change(48+4, 0xff, 0xff, 0xff, 0xff),
		"path without end":      append(change(48+8, byte(len(good)), byte(len(good)>>8)), 'x'),
		"extensions outside":    change(32, 0xff, 0xff, 0xff, 0xff),
		"extensions elsewhere":  change(32, 48, 0, 0, 0),
		"old, longer than said": []byte("ld.so-1.7.0\x00\xff\xff\xff\xff"),
	} {
		if c, err := parseCache(raw); err == nil {
			t.Errorf("%s: %+v, want an error", name, c)
		}
	}
}

// FuzzCache wants of anything that is a cache that it is the same when written
// and read again.
func FuzzCache(f *testing.F) {
	f.Add(bytesOf(fullCache()))
	f.Add(bytesOf(&cache{}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := parseCache(raw)
		if err != nil {
			return
		}
		again, err := parseCache(bytesOf(c))
		if diff := cmp.Diff(c, again, cmp.AllowUnexported(cache{}, cacheEntry{})); diff != "" || err != nil {
			t.Errorf("%v (-read +written and read):\n%s", err, diff)
		}
	})
}

// sectionless is a library of 64 bits that has nothing but segments.
func sectionless() []byte {
	const head, text = 64 + 3*56, "\x00libone.so\x00$ORIGIN/a:/b\x00/lib/ld.so\x00"
	tags := []elf.Dyn64{
		{Tag: int64(elf.DT_NEEDED), Val: 1},
		{Tag: int64(elf.DT_RPATH), Val: 1},
		{Tag: int64(elf.DT_RUNPATH), Val: 11},
		{Tag: int64(elf.DT_STRTAB), Val: 0x1000 + head},
		{Tag: int64(elf.DT_FLAGS_1), Val: uint64(elf.DF_1_NODEFLIB)},
		{Tag: int64(elf.DT_NULL)},
		{Tag: int64(elf.DT_NEEDED), Val: 11}, // behind the end
	}
	end := uint64(head + len(text))
	size := uint64(binary.Size(tags))
	var b bytes.Buffer
	put(&b, elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 3,
	}, []elf.Prog64{
		{Type: uint32(elf.PT_LOAD), Vaddr: 0x1000, Filesz: end + size},
		{Type: uint32(elf.PT_INTERP), Off: head + 24, Filesz: 11},
		{Type: uint32(elf.PT_DYNAMIC), Off: end, Filesz: size},
	}, []byte(text), tags)
	return b.Bytes()
}

func TestSectionless(t *testing.T) {
	got, err := readELF(bytes.NewReader(sectionless()))
	want := &dynamic{
		class: elf.ELFCLASS64, machine: elf.EM_X86_64, interpreter: "/lib/ld.so",
		needed: []string{"libone.so"}, runpath: []string{"$ORIGIN/a", "/b"}, noDefault: true,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(dynamic{})); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// FuzzELF reads programs that are none, within bounds.
func FuzzELF(f *testing.F) {
	f.Add(sectionless())
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := readELF(bytes.NewReader(raw))
		if err != nil {
			return
		}
		for _, s := range append(d.needed, d.interpreter, d.soname) {
			if len(s) >= maxString || bytes.IndexByte([]byte(s), 0) >= 0 {
				t.Errorf("string %q", s)
			}
		}
		if len(d.needed) > maxNeeded || d.rpath != nil && d.runpath != nil {
			t.Errorf("%d libraries, RPATH %q, RUNPATH %q", len(d.needed), d.rpath, d.runpath)
		}
	})
}
