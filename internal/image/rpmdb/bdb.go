package rpmdb

import (
	"encoding/binary"
	"fmt"
)

// The format is that of Berkeley DB's dbinc/db_page.h: pages of pairs of keys
// and values; a long value lies on a chain of pages of its own.
const (
	bdbHash     = 0x061561 // magic number of a hash
	bdbMeta     = 72
	bdbPageHead = 26

	hashUnsorted, hashSorted, overflowPage = 2, 13, 7
	inlineItem, offPageItem                = 1, 3
)

// bdbOrder is the byte order of a hash; nil if it is none.
func bdbOrder(file []byte) binary.ByteOrder {
	for _, o := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		if o.Uint32(file[12:]) == bdbHash {
			return o
		}
	}
	return nil
}

type bdb struct {
	file    []byte
	order   binary.ByteOrder
	page    int
	visited map[uint32]bool // pages of long values
}

func bdbHeaders(file []byte, order binary.ByteOrder, do func(blob []byte) error) error {
	d := &bdb{file: file, order: order, page: int(order.Uint32(file[20:])), visited: map[uint32]bool{}}
	if d.page < 512 || d.page > 65536 || d.page&(d.page-1) != 0 {
		return fmt.Errorf("%w: pages of %d bytes", ErrBroken, d.page)
	}
	if file[24] != 0 {
		return fmt.Errorf("%w: it is encrypted", ErrBroken)
	}
	for n := 1; (n+1)*d.page <= len(file); n++ {
		p := file[n*d.page : (n+1)*d.page]
		if p[25] != hashUnsorted && p[25] != hashSorted {
			continue
		}
		if err := d.pairs(p, do); err != nil {
			return err
		}
	}
	return nil
}

// pairs calls do for the values of a page. Items lie from its end downwards, and
// a table at its beginning says where; a value follows its key.
func (d *bdb) pairs(p []byte, do func(blob []byte) error) error {
	items := int(d.order.Uint16(p[20:]))
	if bdbPageHead+2*items > len(p) {
		return fmt.Errorf("%w: a page of %d items", ErrBroken, items)
	}
	at := func(n int) int { return int(d.order.Uint16(p[bdbPageHead+2*n:])) }
	for n := 1; n < items; n += 2 {
		from, to := at(n), at(n-1)
		if from >= to || to > len(p) {
			return fmt.Errorf("%w: an item at %d", ErrBroken, from)
		}
		blob, err := d.value(p[from:to])
		if err != nil {
			return err
		}
		if len(blob) <= 4 {
			continue // the highest number of a package
		}
		if err := do(blob); err != nil {
			return err
		}
	}
	return nil
}

func (d *bdb) value(item []byte) ([]byte, error) {
	switch {
	case item[0] == inlineItem:
		return item[1:], nil
	case item[0] == offPageItem && len(item) >= 12:
		return d.chain(d.order.Uint32(item[4:]), d.order.Uint32(item[8:]))
	}
	return nil, fmt.Errorf("%w: an item of kind %d", ErrBroken, item[0])
}

// chain joins the pages of a long value.
func (d *bdb) chain(page, length uint32) ([]byte, error) {
	if uint64(length) > uint64(len(d.file)) {
		return nil, fmt.Errorf("%w: a value of %d bytes", ErrBroken, length)
	}
	var all []byte
	for len(all) < int(length) {
		from := uint64(page) * uint64(d.page)
		if page == 0 || from+uint64(d.page) > uint64(len(d.file)) || d.visited[page] {
			return nil, fmt.Errorf("%w: page %d is not there, or there twice", ErrBroken, page)
		}
		d.visited[page] = true
		p := d.file[from : from+uint64(d.page)]
		used := int(d.order.Uint16(p[22:]))
		if p[25] != overflowPage || used == 0 || bdbPageHead+used > len(p) {
			return nil, fmt.Errorf("%w: page %d of a value", ErrBroken, page)
		}
		all = append(all, p[bdbPageHead:bdbPageHead+min(used, int(length)-len(all))]...)
		page = d.order.Uint32(p[16:])
	}
	return all, nil
}
