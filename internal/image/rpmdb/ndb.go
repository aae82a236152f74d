package rpmdb

import (
	"encoding/binary"
	"fmt"
)

// The format of ndb is that of rpm's lib/backend/ndb/rpmpkg.c: pages of slots,
// each of which says where a package's header lies, in blocks.
const (
	ndbMagic  = 'R' | 'p'<<8 | 'm'<<16 | 'P'<<24
	ndbSlot   = 'S' | 'l'<<8 | 'o'<<16 | 't'<<24
	ndbBlob   = 'B' | 'l'<<8 | 'b'<<16 | 'S'<<24
	ndbHeader = 32
	ndbPage   = 4096
	ndbBlock  = 16 // bytes of a block, of a slot, and of what begins a blob
)

func ndbHeaders(file []byte, do func(blob []byte) error) error {
	pages := uint64(binary.LittleEndian.Uint32(file[12:]))
	end := pages * ndbPage
	if end > uint64(len(file)) {
		return fmt.Errorf("%w: %d pages of slots", ErrBroken, pages)
	}
	for at := uint64(ndbHeader); at+ndbBlock <= end; at += ndbBlock {
		slot := file[at : at+ndbBlock]
		where := binary.LittleEndian.Uint32(slot[8:])
		if binary.LittleEndian.Uint32(slot) != ndbSlot {
			return fmt.Errorf("%w: no slot at %d", ErrBroken, at)
		}
		if where == 0 {
			continue // free
		}
		blob, err := ndbBlobAt(file, where, binary.LittleEndian.Uint32(slot[4:]))
		if err != nil {
			return err
		}
		if err := do(blob); err != nil {
			return err
		}
	}
	return nil
}

func ndbBlobAt(file []byte, block, number uint32) ([]byte, error) {
	at := uint64(block) * ndbBlock
	if at+ndbBlock > uint64(len(file)) {
		return nil, fmt.Errorf("%w: block %d", ErrBroken, block)
	}
	head := file[at : at+ndbBlock]
	length := uint64(binary.LittleEndian.Uint32(head[12:]))
	if binary.LittleEndian.Uint32(head) != ndbBlob || binary.LittleEndian.Uint32(head[4:]) != number || at+ndbBlock+length > uint64(len(file)) {
		return nil, fmt.Errorf("%w: package %d", ErrBroken, number)
	}
	return file[at+ndbBlock : at+ndbBlock+length], nil
}
