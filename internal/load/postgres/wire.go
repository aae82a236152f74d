package postgres

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// The kinds of messages of protocol 3 that this package knows: see chapter 55 of PostgreSQL's manual.
const (
	fromAuthentication   = 'R'
	fromBindComplete     = '2'
	fromCommandComplete  = 'C'
	fromCopyIn           = 'G'
	fromDataRow          = 'D'
	fromEmptyQuery       = 'I'
	fromError            = 'E'
	fromKeyData          = 'K'
	fromNegotiateVersion = 'v'
	fromNotice           = 'N'
	fromNotification     = 'A'
	fromParameterStatus  = 'S'
	fromParseComplete    = '1'
	fromReady            = 'Z'
	fromRowDescription   = 'T'

	toBind      = 'B'
	toCopyData  = 'd'
	toCopyDone  = 'c'
	toCopyFail  = 'f'
	toExecute   = 'E'
	toParse     = 'P'
	toPassword  = 'p' // also the messages of SASL
	toQuery     = 'Q'
	toSync      = 'S'
	toTerminate = 'X'
)

const (
	version3   = 3 << 16
	sslRequest = 80877103
)

// headLen is the length of a message before its body: its kind, and a length that counts itself.
const headLen = 5

// A message is one of the server's. Its body is only valid until more is read.
type message struct {
	kind byte
	body []byte
}

// A ProtocolError is the error of an answer that breaks the protocol.
type ProtocolError struct{ What string }

func (e *ProtocolError) Error() string {
	return "the server breaks PostgreSQL's protocol 3: " + e.What + ": is it a PostgreSQL server?"
}

func protocolError(form string, args ...any) error { return &ProtocolError{fmt.Sprintf(form, args...)} }

// split returns the first message of p and its whole length, which is 0 if p has only a part of it.
// A message longer than limit is an error.
func split(p []byte, limit int) (m message, length int, err error) {
	if len(p) < headLen {
		return message{}, 0, nil
	}
	size := binary.BigEndian.Uint32(p[1:headLen])
	if size < headLen-1 || int64(size) >= int64(limit) {
		return message{}, 0, protocolError("a message of kind %q and %d bytes, want 4 to %d", p[0], size, limit-1)
	}
	length = int(size) + 1
	if len(p) < length {
		return message{}, 0, nil
	}
	return message{p[0], p[headLen:length]}, length, nil
}

// isComment reports whether a message may come at any time, and means nothing here.
func (m message) isComment() bool {
	return m.kind == fromNotice || m.kind == fromNotification || m.kind == fromParameterStatus
}

// unexpected is the error of a message that has no place where it came.
func (m message) unexpected(during string) error {
	return protocolError("a message of kind %q during %s", m.kind, during)
}

// The states of a session in a ReadyForQuery.
const (
	outsideTransaction = 'I'
	inTransaction      = 'T'
	inFailed           = 'E' // in a transaction that can only be rolled back
)

// state returns the state that a ReadyForQuery tells.
func (m message) state() (byte, error) {
	if len(m.body) != 1 || bytes.IndexByte([]byte{outsideTransaction, inTransaction, inFailed}, m.body[0]) < 0 {
		return 0, protocolError("a wrong ReadyForQuery %.80q", m.body)
	}
	return m.body[0], nil
}

// A row is the body of a DataRow.
type row []byte

// fields calls add for each field; null has no bytes.
func (r row) fields(add func(value []byte, null bool)) error {
	wrong := protocolError("a wrong row of %d bytes", len(r))
	if len(r) < 2 {
		return wrong
	}
	count, rest := int(binary.BigEndian.Uint16(r)), r[2:]
	for range count {
		if len(rest) < 4 {
			return wrong
		}
		length := int32(binary.BigEndian.Uint32(rest))
		rest = rest[4:]
		if length < -1 || int64(length) > int64(len(rest)) {
			return wrong
		}
		value := rest[:max(length, 0)]
		rest = rest[len(value):]
		add(value, length < 0)
	}
	if len(rest) > 0 {
		return wrong
	}
	return nil
}

// cutString returns the text before the first zero byte, and what follows it.
func cutString(p []byte) (text string, rest []byte, ok bool) {
	before, rest, ok := bytes.Cut(p, []byte{0})
	return string(before), rest, ok
}

// open appends the head of a message, whose length is still missing.
func open(p []byte, kind byte) []byte { return append(p, kind, 0, 0, 0, 0) }

// seal puts the length of a message that begins at start and ends with p.
func seal(p []byte, start int) []byte {
	binary.BigEndian.PutUint32(p[start+1:], uint32(len(p)-start-1))
	return p
}

// appendMessage appends a whole message.
func appendMessage(p []byte, kind byte, body string) []byte {
	start := len(p)
	return seal(append(open(p, kind), body...), start)
}

// appendParse prepares a statement under a name. The server finds out the parameters' types.
func appendParse(p []byte, name, sql string) []byte {
	return appendMessage(p, toParse, name+"\x00"+sql+"\x00"+"\x00\x00")
}

func appendSync(p []byte) []byte { return append(p, toSync, 0, 0, 0, 4) }

// startup is the first message of a connection, which has no kind.
func startup(user, database string) []byte {
	p := binary.BigEndian.AppendUint32(make([]byte, 4), version3)
	for _, word := range []string{
		"user", user, "database", database, "application_name", "tare", "client_encoding", "UTF8", "",
	} {
		p = append(append(p, word...), 0)
	}
	binary.BigEndian.PutUint32(p, uint32(len(p)))
	return p
}
