// Package podlog carries records through the log of a pod. A log is the only way out of a pod that needs no
// server and no rights, but it can lose lines at its beginning, cut them, repeat them and mix them with those of
// others. So each line is numbered and has a checksum:
//
//	tare1 SEQ CRC hello {"wall":"2026-11-26T22:50:00Z",…}
//	tare1 SEQ CRC block RECORDS BASE64(GZIP(bytes))
//	tare1 SEQ CRC more RECORDS BASE64(GZIP(bytes))
//	tare1 SEQ CRC trips [{"Client":0,…}]
//	tare1 SEQ CRC end {"outcome":"done",…}
//
// SEQ counts lines from 0. CRC is the CRC-32C of everything else in the line but the first word. RECORDS is how
// many lines of the record stream (package store/record) were written before: so a reader knows how many a hole
// has cost. "block" is the first line of a block, at which a reader can go on after a hole.
package podlog

import (
	"encoding/json"
	"time"
)

// magic begins each line of ours; its number is the version of the format.
const magic = "tare1"

// The kinds of lines.
const (
	kindHello = "hello"
	kindBlock = "block"
	kindMore  = "more"
	kindTrips = "trips"
	kindEnd   = "end"
)

// Limits of a line and of what it holds. containerd and CRI-O cut lines at 16 KiB.
const (
	maxLine  = 8 << 10
	maxChunk = 64 << 10 // bytes of the record stream in one line
)

// A Hello is the first line of a pod.
type Hello struct {
	Wall time.Time `json:"wall"` // by the node's clock, UTC
	Node string    `json:"node"`
	Pass int       `json:"pass"`
	Arch string    `json:"arch"`
	Tool string    `json:"tool"` // the version of tare in the image
}

// The outcomes of a pod, in its last line and its Digest.
const (
	Done   = "done"
	Failed = "failed"
)

// A Digest is what a pod leaves as its termination message, which reaches the client by another way than the log.
type Digest struct {
	Outcome string `json:"outcome"` // Done or Failed
	Reason  string `json:"reason,omitempty"`
	Lines   int    `json:"lines"`  // of ours
	SHA256  string `json:"sha256"` // of these lines with their newlines, in hexadecimal
}

// maxReason limits the reason of a Digest, so that the message stays below the 4,096 bytes that Kubernetes keeps,
// even if each byte has to be escaped.
const maxReason = 600

// Message is the digest as a termination message.
func (d Digest) Message() []byte {
	if len(d.Reason) > maxReason {
		d.Reason = d.Reason[:maxReason] + "…"
	}
	text, err := json.Marshal(d)
	if err != nil {
		panic(err) // strings and a number
	}
	return text
}

// ParseDigest reads a termination message. ok is false if it is none of ours.
func ParseDigest(message string) (d Digest, ok bool) {
	err := json.Unmarshal([]byte(message), &d)
	return d, err == nil && d.SHA256 != "" && d.Lines > 0 && (d.Outcome == Done || d.Outcome == Failed)
}
