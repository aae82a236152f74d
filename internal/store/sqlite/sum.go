package sqlite

import (
	"database/sql"
	"encoding/binary"
	"errors"

	"github.com/tare-bench/tare/internal/store/record"
)

// errSum is the error of reading what is not what was stored.
var errSum = errors.New("its checksum does not fit")

// sum is the checksum of columns, as the lines of a record have one: see
// record.Sum. Each is an int, an int64, text or nil; NULL and what is empty are
// the same.
func sum(columns ...any) int64 {
	var b []byte
	for _, c := range columns {
		switch c := c.(type) {
		case nil:
			b = binary.AppendUvarint(b, 0)
		case int:
			b = binary.LittleEndian.AppendUint64(b, uint64(c))
		case int64:
			b = binary.LittleEndian.AppendUint64(b, uint64(c))
		case string:
			b = append(binary.AppendUvarint(b, uint64(len(c))), c...)
		case []byte:
			b = append(binary.AppendUvarint(b, uint64(len(c))), c...)
		case sql.RawBytes:
			b = append(binary.AppendUvarint(b, uint64(len(c))), c...)
		default:
			panic("sqlite: a sum of another type") // of which there is none in this package
		}
	}
	return int64(record.Sum(b))
}

// checkSum compares a stored checksum with that of what is there. A run has all
// of its checksums, or, if it was stored before there were any, maybe none.
func checkSum(stored sql.NullInt64, must bool, columns ...any) error {
	if stored.Valid && stored.Int64 != sum(columns...) || !stored.Valid && must {
		return errSum
	}
	return nil
}
