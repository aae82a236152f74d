package sqlite

import (
	"database/sql"
	"encoding/binary"
	"errors"

	"github.com/tare-bench/tare/internal/store/record"
)

// errSum means that stored data has changed.
var errSum = errors.New("its checksum does not match")

// sum is the checksum of columns, like that of the lines of a record: see record.Sum. Each column
// is an int, an int64, text, a pointer to text, or nil; NULL and empty count as the same.
func sum(columns ...any) int64 {
	var room [1024]byte // most rows need no more, and no memory that must be collected
	b := room[:0]
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
		case *sql.RawBytes:
			b = append(binary.AppendUvarint(b, uint64(len(*c))), *c...)
		case sql.RawBytes:
			b = append(binary.AppendUvarint(b, uint64(len(c))), c...)
		default:
			panic("sqlite: a sum of another type") // this package uses no other type
		}
	}
	return int64(record.Sum(b))
}

// checkSum compares a stored checksum with the checksum of the columns. must is false for runs that
// may have been stored before there were checksums.
func checkSum(stored sql.NullInt64, must bool, columns ...any) error {
	if stored.Valid && stored.Int64 != sum(columns...) || !stored.Valid && must {
		return errSum
	}
	return nil
}
