package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/goccy/go-yaml"

	"github.com/tare-bench/tare/internal/fleet/kube"
)

// A right is what a client of a fleet may need to do.
type right struct {
	group, resource string
	verbs           []string
	all             bool   // in no namespace
	without         string // what is not known or done without it; "" = it is needed
}

var rights = []right{
	{resource: "nodes", verbs: []string{"list"}, all: true},
	{resource: "configmaps", verbs: []string{"create", "get", "list", "delete"}},
	{resource: "secrets", verbs: []string{"create"}},
	{group: "batch", resource: "jobs", verbs: []string{"create", "get", "list"}},
	{resource: "pods", verbs: []string{"list", "watch"}},
	{resource: "pods/log", verbs: []string{"get"}},
	{resource: "pods", verbs: []string{"create"}, without: "what the cluster adds to pods is known only when they run"},
	{resource: "events", verbs: []string{"list"}, without: "why a Job has no pod is not known"},
	{resource: "resourcequotas", verbs: []string{"list"}, without: "quotas are known only when pods are refused"},
	{resource: "limitranges", verbs: []string{"list"}, without: "limits that are added are known only when pods run"},
}

// access is the question whether a verb of a right is allowed.
func (r right) access(verb, namespace string) kube.Access {
	a := kube.Access{Verb: verb, Group: r.group, Resource: r.resource, Namespace: namespace}
	if r.all {
		a.Namespace = ""
	}
	if r.resource == "pods/log" {
		a.Resource, a.Subresource = "pods", "log"
	}
	return a
}

// checkRights asks for each right. allowed are the resources, with verbs, that are.
func (f *preflight) checkRights(ctx context.Context, namespace string) error {
	for _, r := range rights {
		for _, verb := range r.verbs {
			ok, why, err := f.c.Allowed(ctx, r.access(verb, namespace))
			if err != nil {
				return err
			}
			f.allowed[verb+" "+r.resource] = ok
			if ok {
				continue
			}
			where := "in namespace " + namespace
			if r.all {
				where = "in the cluster"
			}
			text := fmt.Sprintf("you may not %s %s %s", verb, r.resource, where)
			if why != "" {
				text += " (" + why + ")"
			}
			if r.without != "" {
				f.Notes = append(f.Notes, text+": "+r.without)
				continue
			}
			f.problem("%s: tare fleet rbac prints the rights that are needed", text)
		}
	}
	return nil
}

// Rights are the Roles and the ClusterRole that a client needs, as YAML. Namespaces are those of the fleet.
func Rights(namespaces []string) ([]byte, error) {
	type rule struct {
		Groups    []string `json:"apiGroups"`
		Resources []string `json:"resources"`
		Verbs     []string `json:"verbs"`
	}
	var inside, all []rule
	for _, r := range rights {
		one := rule{[]string{r.group}, []string{r.resource}, r.verbs}
		if r.all {
			all = append(all, one)
		} else {
			inside = append(inside, one)
		}
	}
	type role struct {
		API   string    `json:"apiVersion"`
		Kind  string    `json:"kind"`
		Meta  kube.Meta `json:"metadata"`
		Rules []rule    `json:"rules"`
	}
	const api = "rbac.authorization.k8s.io/v1"
	var docs [][]byte
	roles := []role{{api, "ClusterRole", kube.Meta{Name: "tare-fleet"}, all}}
	for _, n := range namespaces {
		roles = append(roles, role{api, "Role", kube.Meta{Name: "tare-fleet", Namespace: n}, inside})
	}
	for _, r := range roles {
		text, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		docs = append(docs, text)
	}
	return asYAML(docs)
}

// Manifests are the objects of pass 1, as YAML. They have no owner, since the root has no UID before it is
// made; the signal to begin is not among them.
func Manifests(p *Plan) ([]byte, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	var all []kube.Object
	token := randomText(32)
	for _, space := range p.Fleet.Namespaces {
		root, err := p.root(space)
		if err != nil {
			return nil, err
		}
		order, err := p.order(space, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, root, order, p.token(space, token, nil))
	}
	for i := range p.Fleet.Nodes {
		for _, network := range p.podsOf(1) {
			all = append(all, p.job(1, i, network, p.pods(), nil))
		}
	}
	var docs [][]byte
	for _, o := range all {
		text, err := kube.EncodeJSON(o)
		if err != nil {
			return nil, err
		}
		docs = append(docs, text)
	}
	text, err := asYAML(docs)
	return append([]byte(manifestsHead), text...), err
}

// manifestsHead stands before the objects.
const manifestsHead = "# To be read. \"tare fleet run\" makes these objects itself: there the first owns the others,\n" +
	"# which is how \"tare fleet clean\" finds them.\n"

// asYAML is JSON documents as one stream of YAML.
func asYAML(docs [][]byte) ([]byte, error) {
	var out []byte
	for i, d := range docs {
		text, err := yaml.JSONToYAML(d)
		if err != nil {
			return nil, fmt.Errorf("write YAML: %w", err)
		}
		if i > 0 {
			out = append(out, "---\n"...)
		}
		out = slices.Concat(out, text)
	}
	return out, nil
}
