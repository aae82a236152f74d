package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A line ends with a checksum of what is before it:
//
//	{"sample":{…},"crc32c":"0a1b2c3d"}
//
// It is a CRC-32C. It detects every error of one, two or three bits in a line, and every error
// within 32 neighbouring bits; it misses others with a probability of one in four thousand million.
// Processors have an instruction for it. It protects against failing disks and memory, and not
// against deliberate changes, because anybody can compute a new checksum.
const (
	sumKey = `,"crc32c":"`
	sumEnd = `"}`
	sumLen = len(sumKey) + 8 + len(sumEnd)
)

// ErrDamaged means that a line is not as it was written.
var ErrDamaged = errors.New("the line was changed or damaged: its checksum does not match")

// errMixed is for a line without a checksum among others with one, or the reverse.
var errMixed = fmt.Errorf("%w (some lines of this run have a checksum, and some have none)", ErrDamaged)

// Sum is the checksum of a text: its CRC-32C.
func Sum(text []byte) uint32 { return crc32.Checksum(text, castagnoli) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// addSum adds the checksum to a line, which is a JSON object and a newline.
func addSum(line []byte) []byte {
	front := line[:len(line)-len("}\n")]
	return fmt.Appendf(front, "%s%08x%s\n", sumKey, Sum(front), sumEnd)
}

// verify reports whether a line has a checksum, and returns ErrDamaged if it does not match.
func verify(line []byte) (summed bool, err error) {
	line = bytes.TrimRight(line, "\r\n")
	at := len(line) - sumLen
	if at < 0 || !bytes.HasPrefix(line[at:], []byte(sumKey)) || !bytes.HasSuffix(line, []byte(sumEnd)) {
		return false, nil
	}
	if want := fmt.Sprintf("%08x", Sum(line[:at])); want != string(line[at+len(sumKey):at+len(sumKey)+8]) {
		return true, ErrDamaged
	}
	return true, nil
}

// isTruncated reports whether a line is an incomplete JSON value, as when its writer was killed. A power
// cut may also leave zeros.
func isTruncated(line []byte) bool {
	line = bytes.TrimRight(line, "\x00")
	var v json.RawMessage
	err := json.NewDecoder(bytes.NewReader(line)).Decode(&v)
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}
