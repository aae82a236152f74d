package kube

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// A Change is a pod that is new or has changed, or is gone: then it is as it was last seen.
type Change struct {
	Pod  *Pod
	Gone bool
}

// Watch tells of all pods that the selector of labels fits, and then of each change, until the context ends, each
// returns an error, or the server refuses. After lost connections it begins again, for as long as that takes, and tells
// of what it missed; it may tell of a pod that has not changed.
func (c *Client) Watch(ctx context.Context, namespace, selector string, each func(Change) error) error {
	return c.Listen(ctx, namespace, selector, each, func(bool) {})
}

// Listen is Watch that also says when it is deaf, from when a connection was lost until there is another, and when it hears
// for the first time. What changes while it is deaf is told late; a pod that comes and goes before may never be told.
func (c *Client) Listen(
	ctx context.Context, namespace, selector string, each func(Change) error, deaf func(is bool),
) error {
	w := &watch{c: c, query: Query{Namespace: namespace, Labels: selector}, deaf: deaf, lost: true, known: map[string]*Pod{}}
	w.each = func(change Change) error {
		w.failed = each(change)
		return w.failed
	}
	lastGood := time.Now()
	for n := 1; ; n++ {
		told := w.told
		err := w.round(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if w.failed != nil {
			return w.failed
		}
		if w.told > told {
			n, lastGood = 1, time.Now()
		}
		switch {
		case err == nil && w.told > told: // it has ended as it does every few minutes
			continue
		case errors.Is(err, ErrExpired):
			w.version = ""
			c.trouble(err)
		case err != nil:
			// An API server that has just begun may refuse for a moment what it allows.
			if e := (*Error)(nil); errors.As(err, &e) && !mayPass(err, true, 1) &&
				(!w.listed || time.Since(lastGood) > c.patience) {
				return err
			}
			c.trouble(err)
		}
		w.lost = true
		w.deaf(true)
		if err := sleep(ctx, backoff(n)); err != nil {
			return err
		}
	}
}

// A watch is what is known of some pods.
type watch struct {
	c       *Client
	query   Query
	each    func(Change) error
	deaf    func(is bool)
	lost    bool            // there is no connection
	failed  error           // of each
	known   map[string]*Pod // by name
	version string          // of the cluster that is known; "" = list again
	listed  bool            // it was allowed once
	told    int             // how often something was heard
}

// round lists the pods, if need be, and listens until the connection ends.
func (w *watch) round(ctx context.Context) error {
	if w.version == "" {
		if err := w.list(ctx); err != nil {
			return err
		}
	}
	r, err := w.c.request("watch", http.MethodGet, pods, w.query.Namespace, "")
	if err != nil {
		return err
	}
	if err := w.c.wait(ctx); err != nil {
		return err
	}
	// The server ends it then; and if the server has gone without a word, so do we.
	length := 5*time.Minute + rand.N(5*time.Minute)
	ctx, cancel := context.WithTimeout(ctx, length+timeout)
	defer cancel()
	r.query.Set("watch", "true")
	r.query.Set("allowWatchBookmarks", "true")
	r.query.Set("resourceVersion", w.version)
	r.query.Set("timeoutSeconds", strconv.Itoa(int(length.Seconds())))
	if w.query.Labels != "" {
		r.query.Set("labelSelector", w.query.Labels)
	}
	answer, err := w.c.send(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	if w.lost {
		w.lost = false
		w.deaf(false)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		if err := w.line(r, lines.Bytes()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return &Error{request: r, cause: err}
	}
	return nil
}

// list makes known what there is now.
func (w *watch) list(ctx context.Context) error {
	all, version, err := list[Pod](ctx, w.c, w.query)
	if err != nil {
		return err
	}
	w.listed = true
	w.told++
	before := w.known
	w.known = make(map[string]*Pod, len(all))
	for i := range all {
		pod := &all[i]
		w.known[pod.Name] = pod
		if old := before[pod.Name]; old != nil && old.UID == pod.UID {
			delete(before, pod.Name)
		}
	}
	for _, pod := range before { // they went while nobody listened
		if err := w.each(Change{Pod: pod, Gone: true}); err != nil {
			return err
		}
	}
	for i := range all {
		if err := w.each(Change{Pod: &all[i]}); err != nil {
			return err
		}
	}
	w.version = version
	return nil
}

// line is one event of the server.
func (w *watch) line(r *request, text []byte) error {
	var event struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := json.Unmarshal(text, &event); err != nil {
		return r.errorf("the server tells of a change that cannot be read: %v", err)
	}
	if event.Type == "ERROR" {
		var s status
		if err := json.Unmarshal(event.Object, &s); err != nil {
			return r.errorf("the server tells of an error that cannot be read: %v", err)
		}
		return &Error{request: r, Code: s.Code, Reason: s.Reason, Message: s.Message}
	}
	pod := new(Pod)
	if err := json.Unmarshal(event.Object, pod); err != nil {
		return r.errorf("the server tells of a pod that cannot be read: %v", err)
	}
	w.told++
	var err error
	switch event.Type {
	case "ADDED", "MODIFIED":
		w.known[pod.Name] = pod
		err = w.each(Change{Pod: pod})
	case "DELETED":
		delete(w.known, pod.Name)
		err = w.each(Change{Pod: pod, Gone: true})
	}
	if err == nil && pod.ResourceVersion != "" {
		w.version = pod.ResourceVersion
	}
	return err
}
