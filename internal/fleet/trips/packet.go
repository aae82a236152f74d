package trips

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// A request and its answer have the same size, so that nobody can be flooded with the help of a listener:
//
//	bytes  0 to 15  the tag of the fleet, which only those know that have its token
//	byte   16       request or answer; an answer is never answered
//	bytes 24 to 31  the number of the request, whose upper half is random
//	bytes 32 to 39  answer: when the request came, in nanoseconds since 1970 by the wall clock of the server
//	bytes 40 to 47  answer: when it was sent, likewise
//
// and zeros elsewhere.
const (
	packetSize = 64
	tagSize    = 16

	atKind, atNumber, atReceived, atSent = 16, 24, 32, 40

	request, answer = 1, 2
)

type packet [packetSize]byte

type tag [tagSize]byte

// tagOf is derived from the token, which itself is never sent.
func tagOf(token []byte) tag {
	h := hmac.New(sha256.New, token)
	h.Write([]byte("tare fleet trips 1")) // a hash takes everything
	return tag(h.Sum(nil))
}

func (p *packet) make(t tag, number uint64) {
	*p = packet{atKind: request}
	copy(p[:], t[:])
	binary.BigEndian.PutUint64(p[atNumber:], number)
}

// is reports whether the n bytes that came are a packet of this fleet and kind. How long it takes does not depend on
// how much of the tag is right.
func (p *packet) is(n int, t tag, kind byte) bool {
	return n == packetSize && hmac.Equal(p[:tagSize], t[:]) && p[atKind] == kind
}

func (p *packet) number() uint64 { return binary.BigEndian.Uint64(p[atNumber:]) }

func (p *packet) setTime(at int, t time.Time) {
	binary.BigEndian.PutUint64(p[at:], uint64(t.UnixNano()))
}

func (p *packet) time(at int) time.Time { return time.Unix(0, int64(binary.BigEndian.Uint64(p[at:]))) }
