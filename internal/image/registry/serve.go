package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/tare-bench/tare/internal/bench"
)

// discardLog is a logger that discards: clients report their own errors.
func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

// ServeHTTP implements http.Handler.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	w.Header().Set("Docker-Distribution-API-Version", "registry/2.0")
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
		writeError(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "this registry is read-only")
		return
	}
	name, kind, target := split(q.URL.Path)
	o, done := r.serve(name)
	defer done()
	if bench.Sleep(q.Context(), r.options.Latency) != nil {
		return // the client has left
	}
	switch {
	case q.URL.Path == "/v2/" || q.URL.Path == "/v2":
		_, _ = io.WriteString(w, "{}") // the client notices missing bytes, here and below
	case o == nil:
		writeError(w, http.StatusNotFound, "NAME_UNKNOWN", "no such repository")
	case kind == "manifests" && (target == o.content.id || target == o.content.name):
		o.manifest(w, q)
	case kind == "manifests":
		writeError(w, http.StatusNotFound, "MANIFEST_UNKNOWN", "no such manifest")
	default:
		r.blob(w, q, o, target)
	}
}

// split splits a path: "/v2/NAME/manifests/TAG" or "/v2/NAME/blobs/DIGEST".
func split(path string) (name, kind, target string) {
	rest, _ := strings.CutPrefix(path, "/v2/")
	for _, kind := range []string{"manifests", "blobs"} {
		if i := strings.LastIndex(rest, "/"+kind+"/"); i > 0 {
			return rest[:i], kind, rest[i+len(kind)+2:]
		}
	}
	return "", "", ""
}

func writeError(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q}]}`, code, message)
}

func (o *Offer) manifest(w http.ResponseWriter, q *http.Request) {
	setContentHeaders(w, string(types.OCIManifestSchema1), o.content.name, int64(len(o.content.manifest)))
	w.WriteHeader(http.StatusOK)
	if q.Method == http.MethodGet {
		n, _ := w.Write(o.content.manifest)
		o.addSent(o.content.name, 0, int64(n))
	}
}

func setContentHeaders(w http.ResponseWriter, kind, digest string, size int64) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	h.Set("Docker-Content-Digest", digest)
	h.Set("Etag", `"`+digest+`"`)
}

func (r *Registry) blob(w http.ResponseWriter, q *http.Request, o *Offer, digest string) {
	b, ok := o.content.blobs[digest]
	if !ok {
		writeError(w, http.StatusNotFound, "BLOB_UNKNOWN", "no such blob")
		return
	}
	from, to, partial := span(q.Header.Get("Range"), b.size())
	if from >= to && partial {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", b.size()))
		writeError(w, http.StatusRequestedRangeNotSatisfiable, "RANGE_INVALID", "the blob is shorter")
		return
	}
	setContentHeaders(w, "application/octet-stream", digest, to-from)
	w.Header().Set("Accept-Ranges", "bytes")
	status := http.StatusOK
	if partial {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, b.size()))
		status = http.StatusPartialContent
	}
	w.WriteHeader(status)
	if q.Method == http.MethodHead {
		return
	}
	own, _ := q.Context().Value(connectionLimiter{}).(*rateLimiter) // nil if a test calls the handler
	sent, _ := b.send(q.Context(), w, from, to, own, r.shared)
	_ = http.NewResponseController(w).Flush() // otherwise the end would be sent after the clock was read
	o.addSent(digest, from, sent)
}

// span reads a Range with one part, "bytes=FROM-" or "bytes=FROM-TO". Any other form means the
// whole blob, as the protocol allows.
func span(header string, size int64) (from, to int64, partial bool) {
	text, ok := strings.CutPrefix(header, "bytes=")
	first, last, dash := strings.Cut(text, "-")
	from, err := strconv.ParseInt(first, 10, 64)
	if !ok || !dash || err != nil || from < 0 {
		return 0, size, false
	}
	if last == "" {
		return from, size, true
	}
	to, err = strconv.ParseInt(last, 10, 64)
	if err != nil || to < from {
		return 0, size, false
	}
	return from, min(to, size-1) + 1, true
}

// send sends bytes of a blob, and returns how many.
func (b blob) send(ctx context.Context, w io.Writer, from, to int64, limiters ...*rateLimiter) (sent int64, err error) {
	if from < b.head {
		sent, err = b.sendFile(ctx, w, from, min(to, b.head), limiters)
	}
	if err != nil || to <= b.head {
		return sent, err
	}
	tail := b.tail[max(0, from-b.head) : to-b.head]
	if err := wait(ctx, int64(len(tail)), limiters); err != nil {
		return sent, err
	}
	n, err := w.Write(tail)
	return sent + int64(n), err
}

func (b blob) sendFile(
	ctx context.Context, w io.Writer, from, to int64, limiters []*rateLimiter,
) (sent int64, err error) {
	f, err := os.Open(b.file)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return 0, err
	}
	for from+sent < to {
		portion := to - from - sent
		for _, p := range limiters {
			portion = p.chunkSize(portion)
		}
		if err := wait(ctx, portion, limiters); err != nil {
			return sent, err
		}
		n, err := io.CopyN(w, f, portion) // by sendfile, if w is a connection's
		sent += n
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// wait returns when n bytes have had time to pass at all of the paces.
func wait(ctx context.Context, n int64, limiters []*rateLimiter) error {
	for _, p := range limiters {
		if err := p.wait(ctx, n); err != nil {
			return err
		}
	}
	return nil
}
