package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/builder"
)

// A buildRecord is a record of BuildKit's cache as the engine writes it.
type buildRecord struct {
	ID          string
	Description string
	Parent      string   // until API 1.41
	Parents     []string `json:" Parents"` // the engine writes this blank
}

// record is what the record says in any version.
func (r buildRecord) record() builder.Record {
	parents := r.Parents
	if r.Parent != "" {
		parents = append(parents, r.Parent)
	}
	return builder.Record{ID: r.ID, Description: r.Description, Parents: parents}
}

// buildRecords lists BuildKit's cache, where the engine is on this machine. An engine does that for one
// client at a time and refuses the others.
func (e *Engine) buildRecords(ctx context.Context) (records []builder.Record, err error) {
	if !strings.HasPrefix(e.client.DaemonHost(), "unix://") {
		return nil, nil
	}
	const tries, pause = 50, 100 * time.Millisecond
	for n := 1; ; n++ {
		found, err := e.askRecords(ctx)
		if err == nil || n == tries || !strings.Contains(err.Error(), "already running") {
			for _, r := range found {
				records = append(records, r.record())
			}
			return records, e.failed("list the build cache", err)
		}
		if err := bench.Sleep(ctx, pause); err != nil {
			return nil, e.failed("list the build cache", err)
		}
	}
}

// askRecords makes the call. The client library's answer has no Parent.
func (e *Engine) askRecords(ctx context.Context) ([]buildRecord, error) {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return e.connect(ctx)
	}}
	defer transport.CloseIdleConnections()
	address := "http://docker/v" + e.client.ClientVersion() + "/system/df?type=build-cache&verbose=1"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return nil, bench.Because(ctx, err)
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	if answer.StatusCode == http.StatusNotFound {
		return nil, nil // an engine that only speaks this API, and has no BuildKit
	}
	body := json.NewDecoder(io.LimitReader(answer.Body, maxResponse))
	if answer.StatusCode != http.StatusOK {
		var failure struct{ Message string }
		_ = body.Decode(&failure) // the status says enough
		return nil, fmt.Errorf("HTTP status %d: %.300q", answer.StatusCode, failure.Message)
	}
	var usage struct {
		BuildCache      []buildRecord // until API 1.51
		BuildCacheUsage struct{ Items []buildRecord }
	}
	if err := body.Decode(&usage); err != nil {
		return nil, bench.Because(ctx, err)
	}
	return append(usage.BuildCache, usage.BuildCacheUsage.Items...), nil
}

// removeRecords removes the records of the cache that are ours, each by its ID, and reports whether
// there were any. The engine keeps those that it still uses.
func (e *Engine) removeRecords(ctx context.Context, ours func(description string) bool) (some bool, err error) {
	all, err := e.buildRecords(ctx)
	if err != nil {
		return false, err
	}
	for _, id := range builder.OwnRecords(all, func(r builder.Record) bool { return ours(r.Description) }) {
		done, err := e.client.BuildCachePrune(ctx, client.BuildCachePruneOptions{
			All: true, Filters: client.Filters{}.Add("id", id),
		})
		if err != nil {
			return some, e.failed("remove record "+id+" of the build cache", err)
		}
		some = some || len(done.Report.CachesDeleted) > 0
	}
	return some, nil
}
