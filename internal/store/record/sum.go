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
// It is a CRC-32C, which no error of one, two or three bits in a line, nor of up
// to 32 bits side by side, can get past, and any other with a chance of one in
// four thousand million; processors have an instruction for it. It is against
// disks and memories that forget. Who changes a record on purpose can compute
// it anew: nothing against that could be in the record itself.
const (
	sumKey = `,"crc32c":"`
	sumEnd = `"}`
	sumLen = len(sumKey) + 8 + len(sumEnd)
)

// ErrDamaged is wrapped by the error of reading a line that is not what was
// written.
var ErrDamaged = errors.New("the line is not what was written: its checksum does not fit")

// errMixed is for a line without a checksum among others with one, or the reverse.
var errMixed = fmt.Errorf("%w (some lines of this run have one, and some have none)", ErrDamaged)

// Sum is the checksum of a text: its CRC-32C.
func Sum(text []byte) uint32 { return crc32.Checksum(text, castagnoli) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal adds the checksum to a line, which is a JSON object and a newline.
func seal(line []byte) []byte {
	front := line[:len(line)-len("}\n")]
	return fmt.Appendf(front, "%s%08x%s\n", sumKey, Sum(front), sumEnd)
}

// verify reports whether a line has a checksum, and ErrDamaged if that does not
// fit.
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

// cutOff reports whether a line is the beginning of a JSON value and not a whole
// one, as it is where its writer was killed. A power cut may leave zeros as well.
func cutOff(line []byte) bool {
	line = bytes.TrimRight(line, "\x00")
	var v json.RawMessage
	err := json.NewDecoder(bytes.NewReader(line)).Decode(&v)
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}
