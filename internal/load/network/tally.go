package network

import (
	"encoding/binary"
	"time"
)

// headerBytes is the size of the header of every datagram of a session: the session's key,
// the number of the datagram from 0 up, and the time of sending by the sender's own clock
// in nanoseconds; big endian, 8 bytes each.
const headerBytes = 24

// knock is the number of the datagram with which a stream joins its session. Its third
// word is the number of the stream.
const knock = 1<<64 - 1

func putHeader(p []byte, key, number, third uint64) {
	binary.BigEndian.PutUint64(p[0:8], key)
	binary.BigEndian.PutUint64(p[8:16], number)
	binary.BigEndian.PutUint64(p[16:24], third)
}

// header reads a datagram; ok is false if it does not belong to the session.
func header(p []byte, key uint64) (number, third uint64, ok bool) {
	if len(p) < headerBytes || binary.BigEndian.Uint64(p[0:8]) != key {
		return 0, 0, false
	}
	return binary.BigEndian.Uint64(p[8:16]), binary.BigEndian.Uint64(p[16:24]), true
}

// A tally has the counts of the datagrams that one side received.
type tally struct {
	Received  uint64 `json:"received"`
	Reordered uint64 `json:"reordered"` // received after one with a higher number
	// Jitter is the mean deviation of the transit time, RFC 3550, section 6.4.1; for
	// several streams, the mean of theirs.
	Jitter time.Duration `json:"jitter_ns"`
}

// arrivals are the datagrams of one stream as its receiver sees them.
type arrivals struct {
	received, reordered uint64
	next                uint64  // above the highest number so far
	transit             int64   // of the last datagram: receiver's clock minus sender's clock
	jitter              float64 // in nanoseconds
}

// add counts a datagram. The clocks of sender and receiver need not agree.
func (a *arrivals) add(number uint64, sent, arrived int64) {
	transit := arrived - sent
	if a.received > 0 {
		d := float64(transit - a.transit)
		a.jitter += (max(d, -d) - a.jitter) / 16
	}
	a.transit = transit
	a.received++
	if number < a.next {
		a.reordered++
		return
	}
	a.next = number + 1
}

// sum returns the tally of several streams.
func sum(all []*flow) tally {
	var t tally
	var jitter float64
	heard := 0
	for _, f := range all {
		t.Received += f.arrivals.received
		t.Reordered += f.arrivals.reordered
		if f.arrivals.received > 0 {
			jitter += f.arrivals.jitter
			heard++
		}
	}
	if heard > 0 {
		t.Jitter = time.Duration(jitter / float64(heard))
	}
	return t
}
