package record

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/tare-bench/tare/internal/bench"
)

// An Event is one line of a stream: exactly one of its fields is set. A Header begins a run; other
// events belong to the last Header.
type Event struct {
	Header     *bench.Header
	Sample     *bench.Sample
	Resumption *bench.Resumption
	End        *bench.End
}

// A Decoder reads a stream line by line, so that a run can be followed while
// it is written. It never holds more than one line.
type Decoder struct {
	r         *bufio.Reader
	line      int
	header    *bench.Header // of the current run; nil before the first and after an End
	metrics   metrics
	next      int  // the Seq of the next sample
	summed    bool // the lines of the current run have checksums
	truncated bool
	err       error
}

// NewDecoder returns a Decoder for r.
func NewDecoder(r io.Reader) *Decoder {
	return &Decoder{r: bufio.NewReaderSize(r, 64<<10)}
}

// Next returns the next event. It returns io.EOF at the end of the stream, an
// *Error for what is wrong with the stream, and any other error as the reader
// returned it. After an error it returns that error again.
func (d *Decoder) Next() (Event, error) {
	e, _, err := d.read()
	return e, err
}

// read is Next. With an *Error it returns the bad line, if that was read whole; after d.err is
// cleared, reading continues behind it.
func (d *Decoder) read() (e Event, bad []byte, err error) {
	for d.err == nil {
		text, whole, err := d.readLine()
		if err != nil {
			d.err = err
			break
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		if !whole && isTruncated(text) {
			d.err = d.checkTruncated()
			break
		}
		event, err := d.parse(text)
		if err != nil {
			d.err = &Error{d.line, err}
			return Event{}, text, d.err
		}
		if event != (Event{}) {
			return event, nil, nil
		}
	}
	return Event{}, nil, d.err
}

// Truncated reports whether the stream ended within a line, as when its writer was killed. No data is
// lost then, because the trial of that line was never finished.
func (d *Decoder) Truncated() bool { return d.truncated }

// checkTruncated decides what to do with a line that the end of the stream cuts off.
func (d *Decoder) checkTruncated() error {
	if d.header == nil {
		return &Error{d.line, fmt.Errorf("the header of a run is cut off: %w", io.ErrUnexpectedEOF)}
	}
	d.truncated = true
	return io.EOF
}

// readLine returns the next line, and whether it ended with a newline. The
// text is valid until the next call.
func (d *Decoder) readLine() (text []byte, whole bool, err error) {
	d.line++
	for {
		part, err := d.r.ReadSlice('\n')
		if len(text)+len(part) > MaxLine {
			return nil, false, &Error{d.line, errLongLine}
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			text = append(text, part...)
		case errors.Is(err, io.EOF) && len(text)+len(part) > 0:
			return append(text, part...), false, nil
		case err != nil:
			return nil, false, err
		case text == nil: // nearly always; avoids a copy
			return part, true, nil
		default:
			return append(text, part...), true, nil
		}
	}
}

// parse returns the event of a line. It returns none for an unknown kind of line, so that later
// versions can add kinds.
func (d *Decoder) parse(text []byte) (Event, error) {
	summed, err := verify(text)
	if err != nil {
		return Event{}, d.locate(err)
	}
	var l line
	if err := decode(text, &l); err != nil {
		return Event{}, err
	}
	if d.header != nil && l.Tare == nil && summed != d.summed {
		return Event{}, d.locate(errMixed)
	}
	switch n := l.kinds(); {
	case n > 1:
		return Event{}, errors.New("the line has the keys of two kinds of line")
	case l.Tare != nil:
		d.summed = summed
		return d.parseHeader(text, l)
	case d.header == nil && d.line == 1:
		return Event{}, errors.New(`not a record of tare: the first line has no "tare" (see docs/format.md)`)
	case n == 0:
		return Event{}, nil
	case d.header == nil:
		return Event{}, errors.New("this line belongs to no run: a header is missing, or the run has ended")
	case l.Sample != nil:
		return d.parseSample(l.Sample)
	case l.Resumed != nil:
		return d.parseResumption(l.Resumed)
	default:
		return d.parseEnd(l.End)
	}
}

// Summed reports whether the lines of the current run have checksums, which show that they were
// read as they were written.
func (d *Decoder) Summed() bool { return d.summed }

// locate adds to an error which trial the bad line belongs to.
func (d *Decoder) locate(err error) error {
	if d.header == nil {
		return err
	}
	return fmt.Errorf("run %s, at trial %d: %w", d.header.ID, d.next, err)
}

func (d *Decoder) parseHeader(text []byte, l line) (Event, error) {
	switch {
	case *l.Tare != kind:
		return Event{}, fmt.Errorf(`"tare" is %.40q, want %q: this is not a record of a run`, *l.Tare, kind)
	case l.Version > Version:
		return Event{}, fmt.Errorf("%w (its format is %d, this tare reads up to %d): use a newer tare", ErrVersion,
			l.Version, Version)
	case l.Version < 1:
		return Event{}, errors.New(`"version" is missing`)
	}
	var h headerLine
	if err := decode(text, &h); err != nil {
		return Event{}, err
	}
	if err := ValidateHeader(&h.Header); err != nil {
		return Event{}, err
	}
	var err error
	if d.metrics, err = newMetrics(h.Metrics); err != nil {
		return Event{}, err
	}
	d.header, d.next = &h.Header, 0
	return Event{Header: d.header}, nil
}

func (d *Decoder) parseSample(text []byte) (Event, error) {
	s, err := decodeSample(text, d.metrics)
	if err != nil {
		return Event{}, err
	}
	if err := ValidateSample(d.header, d.next, s); err != nil {
		return Event{}, err
	}
	d.next++
	return Event{Sample: s}, nil
}

func (d *Decoder) parseResumption(text []byte) (Event, error) {
	var r bench.Resumption
	if err := decode(text, &r); err != nil {
		return Event{}, err
	}
	if err := ValidateResumption(d.header, d.next, &r); err != nil {
		return Event{}, err
	}
	extended := d.header.Extended(r) // the header itself was handed out
	d.header = &extended
	return Event{Resumption: &r}, nil
}

func (d *Decoder) parseEnd(text []byte) (Event, error) {
	var e bench.End
	if err := decode(text, &e); err != nil {
		return Event{}, err
	}
	if err := ValidateEnd(&e); err != nil {
		return Event{}, err
	}
	d.header = nil
	return Event{End: &e}, nil
}
