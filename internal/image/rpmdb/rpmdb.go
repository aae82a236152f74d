// Package rpmdb reads which packages are in a database of rpm, of any of the
// three kinds that images have: SQLite, ndb and the hash of Berkeley DB. It
// reads bytes in memory that anybody may have made: nothing is run or written,
// every offset is checked, and every page is read at most once.
package rpmdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Files are the names of the databases, the kind that rpm would take first.
func Files() []string { return []string{"rpmdb.sqlite", "Packages.db", "Packages"} }

// A Package is one that rpm has installed.
type Package struct{ Name, Version, Arch string } // Version is [EPOCH:]VERSION-RELEASE

// ErrBroken is wrapped by the error for a database that cannot be read.
var ErrBroken = errors.New("not a database of rpm that can be read")

// maxPackages bounds what one database may list. A full desktop has some thousand.
const maxPackages = 200_000

// Packages lists the packages in a database, in its order. Keys that packages
// were signed with, which rpm keeps as if they were packages, are left out.
func Packages(file []byte) ([]Package, error) {
	var all []Package
	total := 0
	err := headers(file, func(blob []byte) error {
		// Headers that share bytes would cost time without end.
		if total += len(blob); total > len(file) {
			return fmt.Errorf("%w: headers of more bytes than it has", ErrBroken)
		}
		p, err := parseHeader(blob)
		switch {
		case err != nil:
			return err
		case len(all) == maxPackages:
			return fmt.Errorf("%w: more than %d packages", ErrBroken, maxPackages)
		case p.Name != "gpg-pubkey":
			all = append(all, p)
		}
		return nil
	})
	return all, err
}

// headers calls do for each package's header.
func headers(file []byte, do func(blob []byte) error) error {
	switch {
	case strings.HasPrefix(string(file[:min(len(file), 16)]), sqliteMagic):
		return sqliteHeaders(file, do)
	case len(file) >= ndbHeader && binary.LittleEndian.Uint32(file) == ndbMagic:
		return ndbHeaders(file, do)
	case len(file) >= bdbMeta && bdbOrder(file) != nil:
		return bdbHeaders(file, bdbOrder(file), do)
	}
	return fmt.Errorf("%w: it is neither SQLite, ndb nor a hash of Berkeley DB", ErrBroken)
}

// The tags of a header that are read, and the types of their values.
const (
	tagName, tagVersion, tagRelease, tagEpoch, tagArch = 1000, 1001, 1002, 1003, 1022

	typeInt32, typeString = 4, 6

	entrySize = 16
)

// parseHeader reads a package's header as rpm stores it: how many entries, how
// many bytes of data, the entries (tag, type, offset, count), and the data.
func parseHeader(blob []byte) (Package, error) {
	broken := func(what string) (Package, error) { return Package{}, fmt.Errorf("%w: header: %s", ErrBroken, what) }
	if len(blob) < 8 {
		return broken("too short")
	}
	entries, data := uint64(binary.BigEndian.Uint32(blob)), uint64(binary.BigEndian.Uint32(blob[4:]))
	if 8+entries*entrySize+data > uint64(len(blob)) {
		return broken("longer than its record")
	}
	index, store := blob[8:8+entries*entrySize], blob[8+entries*entrySize:]
	var p Package
	var release string
	epoch := ""
	for ; len(index) > 0; index = index[entrySize:] {
		tag, kind, offset := binary.BigEndian.Uint32(index), binary.BigEndian.Uint32(index[4:]), uint64(binary.BigEndian.Uint32(index[8:]))
		if offset > uint64(len(store)) {
			return broken("an entry outside of it")
		}
		value := store[offset:]
		switch {
		case tag == tagName && kind == typeString:
			p.Name = text(value)
		case tag == tagVersion && kind == typeString:
			p.Version = text(value)
		case tag == tagRelease && kind == typeString:
			release = text(value)
		case tag == tagArch && kind == typeString:
			p.Arch = text(value)
		case tag == tagEpoch && kind == typeInt32 && len(value) >= 4:
			epoch = fmt.Sprint(binary.BigEndian.Uint32(value), ":")
		}
	}
	if p.Name == "" {
		return broken("without a name")
	}
	p.Version = epoch + p.Version + "-" + release
	return p, nil
}

// maxText bounds a name or a version.
const maxText = 256

// text is the string that begins here.
func text(b []byte) string {
	b = b[:min(len(b), maxText)]
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}
