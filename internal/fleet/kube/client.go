// Package kube is a client of the API server of Kubernetes: the few calls that a fleet needs, within a rate, and with
// bounds on whatever the server says. What finds a cluster and its credentials is Kubernetes' own client-go.
package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tare-bench/tare/internal/text/plain"
)

// Options say which cluster, and how to speak to it.
type Options struct {
	Kubeconfig string        // the file, or several as in $KUBECONFIG; "" = $KUBECONFIG, ~/.kube/config, or this pod's account
	Context    string        // in it; "" = its current one
	Namespace  string        // "" = that of the context, or "default"
	QPS        float64       // requests a second; 0 = 20
	Burst      int           // requests at once after a rest; 0 = 2.5 times QPS, at least one
	AtOnce     int           // requests that are under way at the same time, beside watches; 0 = 16
	Patience   time.Duration // how long a server that does not answer is asked again; 0 = 2 minutes
	Tool       string        // what the server is told that the client is, such as "tare/1.0"
	Trouble    func(error)   // told of an error after which the server is asked again, from any goroutine; may be nil
}

// A Client speaks to one API server. It can be used by several goroutines.
type Client struct {
	http      *http.Client
	base      *url.URL // without credentials
	namespace string
	limiter   *rate.Limiter
	slots     chan struct{}
	calls     *atomic.Int64
	patience  time.Duration
	trouble   func(error)
}

// Open finds the cluster and its credentials. It does not speak to the server.
func Open(o Options) (*Client, error) {
	paths, loader := o.load()
	files := plain.Line(strings.Join(paths, ", "))
	if raw, err := loader.RawConfig(); err == nil && o.Context != "" && raw.Contexts[o.Context] == nil {
		return nil, fmt.Errorf("the kubeconfig (%s) has no context %q: \"kubectl config get-contexts\" lists those it has",
			files, o.Context)
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, configError(files, err)
	}
	namespace := o.Namespace
	if namespace == "" {
		if namespace, _, err = loader.Namespace(); err != nil {
			return nil, configError(files, err)
		}
	}
	config.UserAgent = cmp.Or(o.Tool, "tare")
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("the credentials for the cluster cannot be used: %s", plain.Line(err.Error()))
	}
	// The credentials would go to wherever the server points.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	base, err := serverURL(config.Host)
	if err != nil {
		return nil, err
	}
	c := &Client{
		http: client, base: base, namespace: namespace, slots: make(chan struct{}, cmp.Or(o.AtOnce, 16)),
		calls: new(atomic.Int64), trouble: o.Trouble,
	}
	qps := cmp.Or(o.QPS, 20)
	c.limiter = rate.NewLimiter(rate.Limit(qps), cmp.Or(o.Burst, max(1, int(2.5*qps))))
	c.patience = cmp.Or(o.Patience, 2*time.Minute)
	if c.trouble == nil {
		c.trouble = func(error) {}
	}
	return c, nil
}

// load finds the files that say how to reach the cluster.
func (o Options) load() (paths []string, loader clientcmd.ClientConfig) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if several := filepath.SplitList(o.Kubeconfig); len(several) > 1 {
		rules.Precedence = several
	} else {
		rules.ExplicitPath = o.Kubeconfig
	}
	rules.WarnIfAllMissing = false // it would be a line on stderr; errors say more
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	return rules.GetLoadingPrecedence(), clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
}

// Settled are options that mean the same cluster and namespace when the environment, the working directory or the
// current context are others. What cannot be found out is as it was.
func (o Options) Settled() Options {
	paths, loader := o.load()
	if raw, err := loader.RawConfig(); err != nil || len(raw.Contexts) == 0 {
		return o
	} else if o.Context == "" {
		o.Context = raw.CurrentContext
	}
	if namespace, _, err := loader.Namespace(); err == nil && o.Namespace == "" {
		o.Namespace = namespace
	}
	var there []string
	for _, name := range paths {
		_, err := os.Stat(name)
		if full, absErr := filepath.Abs(name); err == nil && absErr == nil {
			there = append(there, full)
		}
	}
	o.Kubeconfig = strings.Join(there, string(filepath.ListSeparator))
	return o
}

// configError says which files were looked for.
func configError(files string, err error) error {
	if clientcmd.IsEmptyConfig(err) {
		return fmt.Errorf("no cluster is configured: there is nothing in %s. "+
			"Name a kubeconfig, as with KUBECONFIG=FILE", files)
	}
	return fmt.Errorf("the kubeconfig (%s) cannot be used: %s", files, plain.Line(err.Error()))
}

func serverURL(host string) (*url.URL, error) {
	if !strings.Contains(host, "://") {
		host = "https://" + host
	}
	u, err := url.Parse(host)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("the kubeconfig has a server that is no address: %q", host)
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u, nil
}

// Once is the same client for calls that are timed: each asks the server once, whatever comes of it.
func (c *Client) Once() *Client {
	once := *c
	once.patience = time.Nanosecond // less than any pause
	return &once
}

// Server is the address of the API server, without credentials.
func (c *Client) Server() string { return c.base.String() }

// Namespace is where objects are that name none.
func (c *Client) Namespace() string { return c.namespace }

// Calls is how many requests were made.
func (c *Client) Calls() int64 { return c.calls.Load() }

// A Version is one of Kubernetes.
type Version struct {
	Text  string // such as "v1.34.4"
	Major int
	Minor int
}

// Version asks for the version of the server. It is the call to begin with: it does not wait for a server that does not
// answer.
func (c *Client) Version(ctx context.Context) (Version, error) {
	var got struct{ Major, Minor, GitVersion string }
	r := request{
		verb: "read", what: "the server's version", method: http.MethodGet, path: []string{"version"},
		again: true, patience: min(c.patience, 5*time.Second),
	}
	if _, err := c.ask(ctx, &r, &got); err != nil {
		return Version{}, err
	}
	v := Version{Text: got.GitVersion}
	var errs [2]error
	v.Major, errs[0] = strconv.Atoi(got.Major)
	v.Minor, errs[1] = strconv.Atoi(strings.TrimRight(got.Minor, "+")) // as managed clusters have it
	if errs[0] != nil || errs[1] != nil {
		return v, fmt.Errorf("%s is no API server of Kubernetes: its version is %q.%q", c.Server(), got.Major, got.Minor)
	}
	return v, nil
}

// An Access is something that a client may do.
type Access struct {
	Verb        string `json:"verb"`                  // such as "create"
	Group       string `json:"group,omitempty"`       // such as "batch"; "" = the core
	Resource    string `json:"resource"`              // such as "pods"
	Subresource string `json:"subresource,omitempty"` // such as "log"
	Namespace   string `json:"namespace,omitempty"`   // "" = all, or none for what is in none
}

// Allowed asks whether this client may do something; if not, the text is why, where the server says so.
func (c *Client) Allowed(ctx context.Context, a Access) (bool, string, error) {
	type spec struct {
		Attributes Access `json:"resourceAttributes"`
	}
	body, err := json.Marshal(struct {
		API  string `json:"apiVersion"`
		Kind string `json:"kind"`
		Spec spec   `json:"spec"`
	}{"authorization.k8s.io/v1", "SelfSubjectAccessReview", spec{a}})
	if err != nil {
		return false, "", err
	}
	var got struct {
		Status struct {
			Allowed         bool   `json:"allowed"`
			Reason          string `json:"reason"`
			EvaluationError string `json:"evaluationError"`
		} `json:"status"`
	}
	r := request{
		verb: "create", what: "SelfSubjectAccessReview", method: http.MethodPost, body: body, again: true,
		path: []string{"apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"},
	}
	if _, err := c.ask(ctx, &r, &got); err != nil {
		return false, "", err
	}
	return got.Status.Allowed, cmp.Or(got.Status.Reason, got.Status.EvaluationError), nil
}
