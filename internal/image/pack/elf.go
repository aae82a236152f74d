package pack

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits on what is read from one ELF file.
const (
	maxDynamic = 1 << 20 // bytes of the dynamic section, and entries of it that are strings
	maxNeeded  = 4096
	maxString  = 4096
)

// errNotELF means that a file is not an ELF file.
var errNotELF = errors.New("not an ELF file")

// A dynamic is the information that the dynamic loader reads in a program or library.
type dynamic struct {
	class       elf.Class
	machine     elf.Machine
	interpreter string // empty for a library, and for a static program
	soname      string
	needed      []string
	rpath       []string // only if there is no runpath
	runpath     []string
	noDefault   bool // DF_1_NODEFLIB: neither the cache nor the default directories
}

// readELF reads as the loader does: only by program headers, because a file may have no sections.
func readELF(r io.ReaderAt) (*dynamic, error) {
	var magic [4]byte
	if _, err := r.ReadAt(magic[:], 0); err != nil || string(magic[:]) != elf.ELFMAG {
		return nil, errNotELF
	}
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	if f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN {
		return nil, fmt.Errorf("%w that can be run or linked: its type is %s", errNotELF, f.Type)
	}
	d := &dynamic{class: f.Class, machine: f.Machine}
	for _, p := range f.Progs {
		switch p.Type {
		case elf.PT_INTERP:
			d.interpreter, err = readString(p, 0)
		case elf.PT_DYNAMIC:
			err = d.read(f, p)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Type, err)
		}
	}
	return d, nil
}

// read reads the dynamic section.
func (d *dynamic) read(f *elf.File, p *elf.Prog) error {
	raw, err := io.ReadAll(io.LimitReader(p.Open(), maxDynamic))
	if err != nil {
		return err
	}
	tags := parseTags(f, raw)
	table, err := stringTable(f, tags)
	if err != nil {
		return err
	}
	for _, t := range tags {
		if err := d.apply(t, table); err != nil {
			return fmt.Errorf("%s: %w", t.tag, err)
		}
	}
	if d.runpath != nil {
		d.rpath = nil
	}
	return nil
}

// A tag is an entry of the dynamic section.
type tag struct {
	tag   elf.DynTag
	value uint64
}

func parseTags(f *elf.File, raw []byte) []tag {
	var tags []tag
	order, word := f.ByteOrder, 8
	if f.Class == elf.ELFCLASS32 {
		word = 4
	}
	number := func(b []byte) uint64 {
		if word == 4 {
			return uint64(order.Uint32(b))
		}
		return order.Uint64(b)
	}
	for ; len(raw) >= 2*word; raw = raw[2*word:] {
		t := tag{elf.DynTag(number(raw)), number(raw[word:])}
		if t.tag == elf.DT_NULL {
			break
		}
		tags = append(tags, t)
	}
	return tags
}

// stringTable finds the strings of the dynamic section: they are at an address in one of the
// segments.
func stringTable(f *elf.File, tags []tag) (io.ReaderAt, error) {
	for _, t := range tags {
		if t.tag != elf.DT_STRTAB {
			continue
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_LOAD && p.Vaddr <= t.value && t.value-p.Vaddr < p.Filesz {
				at := int64(t.value - p.Vaddr)
				return io.NewSectionReader(p, at, int64(p.Filesz)-at), nil
			}
		}
		return nil, errors.New("its strings are outside the file")
	}
	return bytes.NewReader(nil), nil
}

func (d *dynamic) apply(t tag, table io.ReaderAt) error {
	switch t.tag {
	case elf.DT_NEEDED, elf.DT_SONAME, elf.DT_RPATH, elf.DT_RUNPATH:
	case elf.DT_FLAGS_1:
		d.noDefault = elf.DynFlag1(t.value)&elf.DF_1_NODEFLIB != 0
		return nil
	default:
		return nil
	}
	s, err := readString(table, int64(t.value))
	if err != nil {
		return err
	}
	switch t.tag {
	case elf.DT_NEEDED:
		d.needed = append(d.needed, s)
	case elf.DT_SONAME:
		d.soname = s
	case elf.DT_RPATH:
		d.rpath = strings.Split(s, ":")
	case elf.DT_RUNPATH:
		d.runpath = strings.Split(s, ":")
	}
	if len(d.needed) > maxNeeded {
		return fmt.Errorf("it needs more than %d libraries", maxNeeded)
	}
	return nil
}

// readString reads a string that ends with a zero byte.
func readString(r io.ReaderAt, at int64) (string, error) {
	if at < 0 {
		return "", errors.New("a string is outside the file")
	}
	var b [maxString]byte
	n, err := r.ReadAt(b[:], at)
	if end := bytes.IndexByte(b[:n], 0); end >= 0 {
		return string(b[:end]), nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return "", fmt.Errorf("a string does not end within %d bytes", maxString)
}
