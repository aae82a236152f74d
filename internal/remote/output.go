package remote

import (
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// An output sends a container's output to the client, in the frames of package stdstream.
type output struct {
	to      http.ResponseWriter
	control *http.ResponseController

	overMu sync.Mutex // protects over; never held for long
	over   bool       // the handler is about to return

	sendMu sync.Mutex // held while data is sent
	closed bool
}

func newOutput(w http.ResponseWriter) *output {
	return &output{to: w, control: http.NewResponseController(w)}
}

// stream is the writer of stdout (1) or stderr (2); nil if the client does not want it.
func (o *output) stream(wanted bool, number byte) io.Writer {
	if !wanted {
		return nil
	}
	return &frames{o, number}
}

// begin tells the client that it is attached.
func (o *output) begin() error {
	o.sendMu.Lock()
	defer o.sendMu.Unlock()
	o.to.WriteHeader(http.StatusOK)
	return o.control.Flush()
}

// stop makes the present and all later writes fail.
func (o *output) stop() {
	o.overMu.Lock()
	defer o.overMu.Unlock()
	if !o.over {
		_ = o.control.SetWriteDeadline(time.Unix(1, 0)) // HTTP/2 has deadlines
	}
}

// close ends the output, because nothing may write to a response after its handler has returned.
func (o *output) close() {
	o.overMu.Lock()
	o.over = true
	o.overMu.Unlock()
	o.sendMu.Lock()
	defer o.sendMu.Unlock()
	o.closed = true
}

var errClosed = errors.New("the client no longer reads the output")

// frames sends frames of one stream.
type frames struct {
	output *output
	number byte
}

// Write implements io.Writer. It sends the data at once.
func (f *frames) Write(p []byte) (int, error) {
	o := f.output
	o.sendMu.Lock()
	defer o.sendMu.Unlock()
	if o.closed {
		return 0, errClosed
	}
	header := [8]byte{f.number}
	binary.BigEndian.PutUint32(header[4:], uint32(len(p)))
	if _, err := o.to.Write(header[:]); err != nil {
		return 0, err
	}
	n, err := o.to.Write(p)
	if err == nil {
		err = o.control.Flush()
	}
	return n, err
}
