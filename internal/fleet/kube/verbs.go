package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
)

// request is one about an object, or about its kind if it has no name.
func (c *Client) request(verb, method string, k kind, namespace, name string) (*request, error) {
	r := &request{verb: verb, what: k.name, name: name, method: method, query: url.Values{}}
	if group, version, ok := strings.Cut(k.api, "/"); ok {
		r.path = []string{"apis", group, version}
	} else {
		r.path = []string{"api", k.api}
	}
	if k.namespaced {
		if namespace == "" {
			namespace = c.namespace
		}
		r.namespace = namespace
		r.path = append(r.path, "namespaces", namespace)
	}
	r.path = append(r.path, k.resource)
	if name != "" {
		r.path = append(r.path, name)
	}
	for _, p := range r.path {
		if p == "." || p == ".." || strings.ContainsAny(p, "/%") { // the rule of the API server
			return nil, fmt.Errorf("%q is no name of a %s or namespace", p, k.name)
		}
	}
	return r, nil
}

// Create makes an object, and reads into it what the server made of it. It is asked again after errors of the
// connection and of the server: if an object of that name with the same LabelRun is then there, it is this one.
func (c *Client) Create(ctx context.Context, o Object) error { return c.create(ctx, o, nil) }

// DryRun does what Create does, admission and defaults included, without making anything.
func (c *Client) DryRun(ctx context.Context, o Object) error {
	return c.create(ctx, o, []string{"All"})
}

func (c *Client) create(ctx context.Context, o Object, dry []string) error {
	m := o.meta()
	if m.Name == "" {
		return fmt.Errorf("a %s without a name cannot be made: it could not be found again", o.kind().name)
	}
	r, err := c.request("create", http.MethodPost, o.kind(), m.Namespace, "")
	if err != nil {
		return err
	}
	r.name, r.again = m.Name, true // a second object of that name cannot be
	if dry != nil {
		r.query["dryRun"] = dry
	}
	if r.body, err = encode(o); err != nil {
		return err
	}
	run := m.Labels[LabelRun]
	tries, err := c.into(ctx, r, o)
	if tries > 1 && run != "" && errors.Is(err, ErrExists) {
		there := reflect.New(reflect.TypeOf(o).Elem()).Interface().(Object)
		there.meta().Name, there.meta().Namespace = m.Name, m.Namespace
		if c.Get(ctx, there) == nil && there.meta().Labels[LabelRun] == run {
			set(o, there)
			return nil
		}
	}
	return err
}

// Get reads the object with the name and namespace that o has.
func (c *Client) Get(ctx context.Context, o Object) error {
	r, err := c.request("read", http.MethodGet, o.kind(), o.meta().Namespace, o.meta().Name)
	if err != nil {
		return err
	}
	r.again = true
	_, err = c.into(ctx, r, o)
	return err
}

// Delete removes an object and, in the background, what it owns. If o has a UID, only the object with that UID is:
// otherwise the error is ErrConflict.
func (c *Client) Delete(ctx context.Context, o Object) error { return c.delete(ctx, o, nil) }

// DeleteIn is Delete for a pod whose processes have so many seconds to end. The pod is gone when the kubelet has removed
// what it has made, which 0 does not wait for.
func (c *Client) DeleteIn(ctx context.Context, p *Pod, seconds int64) error {
	return c.delete(ctx, p, &seconds)
}

func (c *Client) delete(ctx context.Context, o Object, grace *int64) error {
	r, err := c.request("delete", http.MethodDelete, o.kind(), o.meta().Namespace, o.meta().Name)
	if err != nil {
		return err
	}
	type preconditions struct {
		UID string `json:"uid,omitempty"`
	}
	r.body, err = json.Marshal(struct {
		API           string        `json:"apiVersion"`
		Kind          string        `json:"kind"`
		Propagation   string        `json:"propagationPolicy"`
		Preconditions preconditions `json:"preconditions,omitzero"`
		Grace         *int64        `json:"gracePeriodSeconds,omitempty"`
	}{"v1", "DeleteOptions", "Background", preconditions{o.meta().UID}, grace})
	if err != nil {
		return err
	}
	r.again = true
	tries, err := c.ask(ctx, r, nil)
	if tries > 1 && errors.Is(err, ErrNotFound) { // an earlier try did it
		return nil
	}
	return err
}

// Ungate removes one gate of a pod, which is scheduled if it has no other, and reads into it what the server made of it.
func (c *Client) Ungate(ctx context.Context, p *Pod, gate string) error {
	r, err := c.request("start", http.MethodPatch, pods, p.Namespace, p.Name)
	if err != nil {
		return err
	}
	r.again = true
	type remove struct {
		Name  string `json:"name"`
		Patch string `json:"$patch"`
	}
	var body struct {
		Spec struct {
			Gates []remove `json:"schedulingGates"`
		} `json:"spec"`
	}
	body.Spec.Gates = []remove{{gate, "delete"}}
	if r.body, err = json.Marshal(body); err != nil {
		return err
	}
	_, err = c.into(ctx, r, p)
	return err
}

// into makes a request, and replaces the object by the one that is the answer.
func (c *Client) into(ctx context.Context, r *request, o Object) (int, error) {
	got := reflect.New(reflect.TypeOf(o).Elem()).Interface().(Object)
	tries, err := c.ask(ctx, r, got)
	if err != nil {
		return tries, err
	}
	if got.meta().Name != r.name {
		return tries, r.errorf("the server answers with another object, %q", got.meta().Name)
	}
	set(o, got)
	return tries, nil
}

func set(o, value Object) { reflect.ValueOf(o).Elem().Set(reflect.ValueOf(value).Elem()) }

// encode is an object as the server reads it.
func encode(o Object) ([]byte, error) {
	all, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,`, o.kind().api, o.kind().name)
	return append([]byte(head), all[1:]...), nil // each kind has at least its metadata
}

// EncodeJSON is an object as a file, with its kind.
func EncodeJSON(o Object) ([]byte, error) { return encode(o) }

// A Query says which objects are listed.
type Query struct {
	Namespace string // "" = the client's
	Labels    string // a selector, such as "tare.run=ID"
	Fields    string // a selector, such as "involvedObject.kind=Job"
}

// How much a list has at most.
const (
	pageSize = 500
	maxPages = 400
)

// List lists objects, in pages of 500.
func List[T any, P interface {
	*T
	Object
}](ctx context.Context, c *Client, q Query) ([]T, error) {
	all, _, err := list[T, P](ctx, c, q)
	return all, err
}

// Nodes lists the nodes that a selector of labels fits; "" = all.
func (c *Client) Nodes(ctx context.Context, selector string) ([]Node, error) {
	return List[Node](ctx, c, Query{Labels: selector})
}

// list is List, and says as of which version of the cluster.
func list[T any, P interface {
	*T
	Object
}](ctx context.Context, c *Client, q Query) ([]T, string, error) {
	r, err := c.request("list", http.MethodGet, P(new(T)).kind(), q.Namespace, "")
	if err != nil {
		return nil, "", err
	}
	r.again = true
	r.query.Set("limit", strconv.Itoa(pageSize))
	if q.Labels != "" {
		r.query.Set("labelSelector", q.Labels)
	}
	if q.Fields != "" {
		r.query.Set("fieldSelector", q.Fields)
	}
	var all []T
	for begun, n := 0, 0; n < maxPages; n++ {
		var page struct {
			Metadata struct {
				Continue        string `json:"continue"`
				ResourceVersion string `json:"resourceVersion"`
			} `json:"metadata"`
			Items []T `json:"items"`
		}
		_, err := c.ask(ctx, r, &page)
		if errors.Is(err, ErrExpired) && r.query.Has("continue") && begun < 3 { // it took too long: from the beginning
			all = nil
			begun++
			r.query.Del("continue")
			continue
		}
		if err != nil {
			return nil, "", err
		}
		all = append(all, page.Items...)
		if page.Metadata.Continue == "" {
			return all, page.Metadata.ResourceVersion, nil
		}
		r.query.Set("continue", page.Metadata.Continue)
	}
	return nil, "", r.errorf("there is no end of them after %d pages", maxPages)
}

// Log opens the log of a pod's container as it is now: of at most limit bytes, after which it is cut without an error.
// Reading it is the same request: it ends a minute after that was made, and counts as one that is under way until it is
// closed.
func (c *Client) Log(ctx context.Context, namespace, pod, container string, limit int64) (io.ReadCloser, error) {
	r, err := c.request("read the log of", http.MethodGet, pods, namespace, pod)
	if err != nil {
		return nil, err
	}
	r.again = true
	r.path = append(r.path, "log")
	r.query.Set("limitBytes", strconv.FormatInt(limit, 10))
	r.query.Set("container", container)
	var opened *log
	_, err = c.repeat(ctx, r, func() error {
		if err := c.wait(ctx); err != nil {
			return err
		}
		release, err := c.slot(ctx)
		if err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, timeout)
		answer, err := c.send(limited, r)
		if err != nil {
			cancel()
			release()
			return err
		}
		opened = &log{Reader: io.LimitReader(answer.Body, limit), body: answer.Body, end: func() { cancel(); release() }}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// A log is one that is being read.
type log struct {
	io.Reader
	body io.Closer
	end  func() // of the request
}

func (l *log) Close() error {
	if l.end == nil {
		return nil
	}
	l.end()
	l.end = nil
	return l.body.Close()
}
