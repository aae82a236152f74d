package pack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// The format of ld.so.cache: see sysdeps/generic/dl-cache.h of glibc. Numbers have the machine's
// byte order, which is little-endian wherever tare runs.
const (
	cacheMagic    = "glibc-ld.so.cache1.1"
	oldCacheMagic = "ld.so-1.7.0" // precedes the newer format in files for older programs too

	maxCache      = 64 << 20
	maxCacheNames = 64 // of CPUs

	extensionMagic = 0xeaa42174
	hwcapsTag      = 1       // of the section that names CPUs
	hwcapsBit      = 1 << 62 // of an entry for the CPU whose index is in the lower half

	littleEndian = 2 // header flags
)

// A cache is the content of ld.so.cache.
type cache struct {
	entries []cacheEntry
	cpus    []string // glibc-hwcaps, in the order that entries refer to
}

// A cacheEntry is a library's name and its file.
type cacheEntry struct {
	flags     uint32 // kind and architecture
	name      string
	path      string
	osVersion uint32
	hwcap     uint64 // CPUs that it is for; 0 = all
}

type cacheHeader struct {
	Magic      [20]byte
	Libs       uint32
	Strings    uint32 // bytes
	Flags      uint8
	_          [3]uint8
	Extensions uint32 // their offset; 0 = none
	_          [3]uint32
}

type cacheRecord struct {
	Flags, Name, Path, OSVersion uint32
	HWCap                        uint64
}

type cacheSection struct{ Tag, Flags, Offset, Size uint32 }

var errCache = errors.New("not a valid library cache of glibc")

// parseCache reads a cache. Offsets count from the beginning of the newer format.
func parseCache(raw []byte) (*cache, error) {
	raw, err := newerFormat(raw)
	if err != nil {
		return nil, err
	}
	var h cacheHeader
	if _, err := binary.Decode(raw, binary.LittleEndian, &h); err != nil {
		return nil, errCache
	}
	if h.Flags != 0 && h.Flags != littleEndian {
		return nil, fmt.Errorf("%w: its numbers are big-endian", errCache)
	}
	size := binary.Size(h) + int(h.Libs)*binary.Size(cacheRecord{})
	if size > len(raw) {
		return nil, fmt.Errorf("%w: it is too short for %d entries", errCache, h.Libs)
	}
	c := &cache{}
	for at := binary.Size(h); at < size; at += binary.Size(cacheRecord{}) {
		var r cacheRecord
		_, _ = binary.Decode(raw[at:], binary.LittleEndian, &r) // there is room
		name, ok := cString(raw, r.Name)
		file, ok2 := cString(raw, r.Path)
		if !ok || !ok2 {
			return nil, fmt.Errorf("%w: a string is outside the file", errCache)
		}
		c.entries = append(c.entries, cacheEntry{r.Flags, name, file, r.OSVersion, r.HWCap})
	}
	if h.Extensions != 0 {
		c.cpus, err = parseCPUs(raw, h.Extensions)
	}
	return c, err
}

// newerFormat returns the part of a cache in the newer format.
func newerFormat(raw []byte) ([]byte, error) {
	if len(raw) > maxCache {
		return nil, fmt.Errorf("%w: it is longer than %d bytes", errCache, maxCache)
	}
	if bytes.HasPrefix(raw, []byte(oldCacheMagic)) && len(raw) >= 16 {
		skip := uint64(binary.LittleEndian.Uint32(raw[12:]))*12 + 16
		skip = (skip + 7) &^ 7
		if skip > uint64(len(raw)) {
			return nil, errCache
		}
		raw = raw[skip:]
	}
	if !bytes.HasPrefix(raw, []byte(cacheMagic)) {
		return nil, errCache
	}
	return raw, nil
}

func cString(raw []byte, at uint32) (string, bool) {
	if uint64(at) >= uint64(len(raw)) {
		return "", false
	}
	s, _, ok := bytes.Cut(raw[at:min(len(raw), int(at)+maxString)], []byte{0})
	return string(s), ok
}

// parseCPUs reads the names of the CPUs for which there are entries.
func parseCPUs(raw []byte, at uint32) ([]string, error) {
	wrong := fmt.Errorf("%w: its extensions are outside the file", errCache)
	var head struct{ Magic, Count uint32 }
	if uint64(at) > uint64(len(raw)) {
		return nil, wrong
	}
	rest := raw[at:]
	n, err := binary.Decode(rest, binary.LittleEndian, &head)
	if err != nil || head.Magic != extensionMagic {
		return nil, wrong
	}
	for i := range min(head.Count, maxCacheNames) {
		var s cacheSection
		if _, err := binary.Decode(rest[min(len(rest), n+int(i)*binary.Size(s)):], binary.LittleEndian, &s); err != nil {
			return nil, wrong
		}
		if s.Tag == hwcapsTag {
			return parseNames(raw, s)
		}
	}
	return nil, nil
}

func parseNames(raw []byte, s cacheSection) (names []string, err error) {
	if s.Size/4 > maxCacheNames || uint64(s.Offset)+uint64(s.Size) > uint64(len(raw)) {
		return nil, fmt.Errorf("%w: names of CPUs are outside the file", errCache)
	}
	for list := raw[s.Offset:][:s.Size]; len(list) >= 4; list = list[4:] {
		name, ok := cString(raw, binary.LittleEndian.Uint32(list))
		if !ok {
			return nil, fmt.Errorf("%w: names of CPUs are outside the file", errCache)
		}
		names = append(names, name)
	}
	return names, nil
}

// places returns the paths of a library in the cache.
func (c *cache) places(name string, flags uint32) (places []place) {
	if c == nil {
		return nil
	}
	for _, e := range c.entries {
		if e.name == name && e.flags == flags {
			places = append(places, place{e.path, e.hwcap != 0})
		}
	}
	// The loader prefers a variant for its CPU.
	slices.SortStableFunc(places, func(a, b place) int { return rank(a) - rank(b) })
	return places
}

func rank(p place) int {
	if p.variant {
		return 0
	}
	return 1
}

// only returns a cache of the entries for which keep reports true. They stay in
// order: the loader's search depends on it.
func (c *cache) only(keep func(cacheEntry) bool) *cache {
	some := &cache{}
	for _, e := range c.entries {
		if !keep(e) {
			continue
		}
		some.entries = append(some.entries, e)
		if e.hwcap&hwcapsBit != 0 {
			some.cpus = c.cpus
		}
	}
	return some
}

// write writes the cache in the newer format.
func (c *cache) write(out *bytes.Buffer) {
	var h cacheHeader
	var r cacheRecord
	copy(h.Magic[:], cacheMagic)
	h.Libs, h.Flags = uint32(len(c.entries)), littleEndian
	strings := cacheStrings{at: uint32(binary.Size(h) + len(c.entries)*binary.Size(r)), known: map[string]uint32{}}
	records := make([]cacheRecord, len(c.entries))
	for i, e := range c.entries {
		records[i] = cacheRecord{e.flags, strings.add(e.name), strings.add(e.path), e.osVersion, e.hwcap}
	}
	names := make([]uint32, len(c.cpus))
	for i, cpu := range c.cpus {
		names[i] = strings.add(cpu)
	}
	strings.align()
	h.Strings = uint32(strings.bytes.Len())
	end := strings.at + h.Strings
	if len(names) > 0 {
		h.Extensions = end
	}
	put(out, h, records, strings.bytes.Bytes())
	if len(names) > 0 {
		section := cacheSection{Tag: hwcapsTag, Offset: end + 8 + 16, Size: uint32(4 * len(names))}
		put(out, uint32(extensionMagic), uint32(1), section, names)
	}
}

// put writes values of fixed size to memory, which cannot fail.
func put(out *bytes.Buffer, values ...any) {
	for _, v := range values {
		_ = binary.Write(out, binary.LittleEndian, v)
	}
}

// cacheStrings are the strings of a cache, without duplicates.
type cacheStrings struct {
	at    uint32 // offset of the first
	bytes bytes.Buffer
	known map[string]uint32
}

// add returns the offset of a string, and adds the string if it is new.
func (s *cacheStrings) add(text string) uint32 {
	if at, ok := s.known[text]; ok {
		return at
	}
	at := s.at + uint32(s.bytes.Len())
	s.bytes.WriteString(text)
	s.bytes.WriteByte(0)
	s.known[text] = at
	return at
}

// align pads the strings so that a number may follow.
func (s *cacheStrings) align() {
	for (int(s.at)+s.bytes.Len())%4 != 0 {
		s.bytes.WriteByte(0)
	}
}
