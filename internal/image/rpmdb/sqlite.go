package rpmdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// What is read here is the table Packages of a database of SQLite, by "Database
// File Format" of its documentation. SQLite itself would obey what a hostile
// schema says.
const sqliteMagic = "SQLite format 3\x00"

// The kinds of pages of a table.
const (
	interiorPage = 5
	leafPage     = 13

	schemaRoot = 1 // the page where the table of tables begins
	firstPage  = 100
	maxColumns = 64
	maxDepth   = 20
)

type sqlite struct {
	file    []byte
	page    int // bytes of a page
	usable  int // of these, what is not reserved
	visited map[uint32]bool
}

func sqliteHeaders(file []byte, do func(blob []byte) error) error {
	if len(file) < firstPage {
		return fmt.Errorf("%w: no header", ErrBroken)
	}
	page := int(binary.BigEndian.Uint16(file[16:]))
	if page == 1 {
		page = 65536
	}
	s := &sqlite{file: file, page: page, usable: page - int(file[20]), visited: map[uint32]bool{}}
	if page < 512 || page&(page-1) != 0 || s.usable < 480 {
		return fmt.Errorf("%w: pages of %d bytes", ErrBroken, page)
	}
	root, err := s.rootOf("Packages")
	if err != nil {
		return err
	}
	return s.table(root, 0, func(columns [][]byte) error {
		if len(columns) < 2 {
			return fmt.Errorf("%w: a row of %d columns", ErrBroken, len(columns))
		}
		return do(columns[1]) // after its number
	})
}

// rootOf is the first page of a table.
func (s *sqlite) rootOf(table string) (root uint32, err error) {
	// type, name, tbl_name, rootpage, sql
	err = s.table(schemaRoot, 0, func(columns [][]byte) error {
		if len(columns) >= 4 && string(columns[0]) == "table" && string(columns[1]) == table && len(columns[3]) <= 4 {
			for _, b := range columns[3] {
				root = root<<8 | uint32(b)
			}
		}
		return nil
	})
	if err == nil && root == 0 {
		err = fmt.Errorf("%w: no table %s", ErrBroken, table)
	}
	return root, err
}

// table calls row for each row below a page.
func (s *sqlite) table(number uint32, depth int, row func(columns [][]byte) error) error {
	b, err := s.take(number)
	if err != nil {
		return err
	}
	head := 0
	if number == schemaRoot {
		head = firstPage
	}
	kind, cells := b[head], int(binary.BigEndian.Uint16(b[head+3:]))
	first := head + 8
	if kind == interiorPage {
		first = head + 12
	}
	if kind != interiorPage && kind != leafPage || first+2*cells > len(b) || depth == maxDepth {
		return fmt.Errorf("%w: page %d", ErrBroken, number)
	}
	for n := range cells {
		at := int(binary.BigEndian.Uint16(b[first+2*n:]))
		if at+4 > s.usable { // what is beyond is kept free
			return fmt.Errorf("%w: cell %d of page %d", ErrBroken, n, number)
		}
		if kind == interiorPage {
			err = s.table(binary.BigEndian.Uint32(b[at:]), depth+1, row)
		} else {
			err = s.cell(b[at:s.usable], row)
		}
		if err != nil {
			return err
		}
	}
	if kind == interiorPage {
		return s.table(binary.BigEndian.Uint32(b[head+8:]), depth+1, row)
	}
	return nil
}

// take returns a page that nobody has taken before: a page belongs to one place.
func (s *sqlite) take(number uint32) ([]byte, error) {
	end := int64(number) * int64(s.page)
	if number == 0 || end > int64(len(s.file)) || s.visited[number] {
		return nil, fmt.Errorf("%w: page %d is not there, or there twice", ErrBroken, number)
	}
	s.visited[number] = true
	return s.file[end-int64(s.page) : end], nil
}

// cell reads one row: its length, its number, and its record.
func (s *sqlite) cell(b []byte, row func(columns [][]byte) error) error {
	length, b, ok1 := varint(b)
	_, b, ok2 := varint(b)
	if !ok1 || !ok2 || length > uint64(len(s.file)) {
		return fmt.Errorf("%w: a row without end", ErrBroken)
	}
	record, err := s.payload(b, int(length))
	if err != nil {
		return err
	}
	columns, err := columnsOf(record)
	if err != nil {
		return err
	}
	return row(columns)
}

// payload joins what lies in the cell with what lies on pages of its own.
func (s *sqlite) payload(b []byte, length int) ([]byte, error) {
	local := s.local(length)
	if local > len(b) {
		return nil, fmt.Errorf("%w: a row longer than its page", ErrBroken)
	}
	if local == length {
		return b[:length], nil
	}
	if local+4 > len(b) {
		return nil, fmt.Errorf("%w: a row longer than its page", ErrBroken)
	}
	all, next := slices.Clone(b[:local]), binary.BigEndian.Uint32(b[local:])
	for len(all) < length {
		page, err := s.take(next)
		if err != nil {
			return nil, err
		}
		next = binary.BigEndian.Uint32(page)
		all = append(all, page[4:min(s.usable, 4+length-len(all))]...)
	}
	return all, nil
}

// local is how much of a record of that length lies in its cell.
func (s *sqlite) local(length int) int {
	most := s.usable - 35
	if length <= most {
		return length
	}
	least := (s.usable-12)*32/255 - 23
	if k := least + (length-least)%(s.usable-4); k <= most {
		return k
	}
	return least
}

// columnsOf splits a record: the kinds of its columns, and their bytes.
func columnsOf(record []byte) ([][]byte, error) {
	broken := errors.Join(ErrBroken, errors.New("a record"))
	size, kinds, ok := varint(record)
	if !ok || size > uint64(len(record)) || int(size) < len(record)-len(kinds) {
		return nil, broken
	}
	body := record[size:]
	kinds = kinds[:int(size)-(len(record)-len(kinds))]
	var columns [][]byte
	for len(kinds) > 0 {
		var kind uint64
		if kind, kinds, ok = varint(kinds); !ok || len(columns) == maxColumns {
			return nil, broken
		}
		n := lengthOf(kind)
		if n > uint64(len(body)) {
			return nil, broken
		}
		columns, body = append(columns, body[:n]), body[n:]
	}
	return columns, nil
}

// lengthOf is how many bytes a column of that kind has.
func lengthOf(kind uint64) uint64 {
	if kind >= 12 {
		return (kind - 12) / 2
	}
	return []uint64{0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0}[kind]
}

// varint reads a number of one to nine bytes.
func varint(b []byte) (n uint64, rest []byte, ok bool) {
	for i := range min(len(b), 9) {
		if i == 8 {
			return n<<8 | uint64(b[i]), b[i+1:], true
		}
		n = n<<7 | uint64(b[i]&0x7f)
		if b[i] < 0x80 {
			return n, b[i+1:], true
		}
	}
	return 0, nil, false
}
