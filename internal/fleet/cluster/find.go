package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/fleet/kube"
	"github.com/tare-bench/tare/internal/fleet/pairs"
)

// A Found is a fleet that has objects in the cluster.
type Found struct {
	Plan Plan
	// Passes has the nodes of each pass that have a Job, as indices: index 0 is pass 1.
	Passes [2][]int
	Active int // Jobs that have not ended
}

// Find reads the plan of a fleet from its root ConfigMap, with the beginnings of its passes. errors.Is(err,
// kube.ErrNotFound) if the namespace has none.
func Find(ctx context.Context, c *kube.Client, namespace, id string) (*Plan, error) {
	if err := validID(id); err != nil {
		return nil, err
	}
	root := &kube.ConfigMap{Meta: kube.Meta{Name: rootName(id), Namespace: namespace}}
	err := c.Get(ctx, root)
	if isAbsent(err) {
		root.Name, root.Namespace = rootName(id), firstOfSeveral(namespace)
		if several := c.Get(ctx, root); !isAbsent(several) {
			err = several
		}
	}
	if err != nil {
		return nil, err
	}
	return complete(ctx, c, root)
}

// isAbsent reports whether an error says that there is no such object or namespace. Who has rights in some namespaces
// alone is told of all others that it is forbidden.
func isAbsent(err error) bool {
	return errors.Is(err, kube.ErrNotFound) || errors.Is(err, kube.ErrForbidden)
}

// firstOfSeveral is the first namespace of a fleet that is too large for one.
func firstOfSeveral(namespace string) string { return spaces(namespace, perSpace+1)[0] }

// complete is the plan in a root, with the beginnings of its passes.
func complete(ctx context.Context, c *kube.Client, root *kube.ConfigMap) (*Plan, error) {
	p, err := readPlan(root)
	if err != nil {
		return nil, err
	}
	for pass := 1; pass <= 2; pass++ {
		m := &kube.ConfigMap{Meta: kube.Meta{Name: startName(p.Fleet.ID, pass), Namespace: root.Namespace}}
		switch err := c.Get(ctx, m); {
		case errors.Is(err, kube.ErrNotFound):
			return p, nil
		case err != nil:
			return nil, err
		}
		start, err := parseStart(m)
		if err != nil {
			return nil, err
		}
		p.setStart(start)
	}
	return p, nil
}

// List finds the fleets of a namespace, and those that were too large for it and have several. A root that cannot be
// read is told as an error beside the others.
func List(ctx context.Context, c *kube.Client, namespace string) ([]Found, error) {
	maps, err := kube.List[kube.ConfigMap](ctx, c, kube.Query{Namespace: namespace, Labels: kube.LabelRun})
	if err != nil && !isAbsent(err) {
		return nil, err
	}
	several := kube.Query{Namespace: firstOfSeveral(namespace), Labels: kube.LabelRun}
	more, severalErr := kube.List[kube.ConfigMap](ctx, c, several)
	switch {
	case severalErr != nil && !isAbsent(severalErr):
		return nil, severalErr
	case len(more) == 0 && err != nil:
		return nil, err
	}
	maps = append(maps, more...)
	var all []Found
	var errs []error
	for i := range maps {
		if m := &maps[i]; m.Binary[planKey] == nil {
			continue
		}
		p, err := complete(ctx, c, &maps[i])
		if err == nil {
			var f *Found
			if f, err = find(ctx, c, p); err == nil {
				all = append(all, *f)
			}
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}

// find looks for the Jobs of a fleet.
func find(ctx context.Context, c *kube.Client, p *Plan) (*Found, error) {
	f := &Found{Plan: *p}
	for _, space := range p.Fleet.Namespaces {
		jobs, err := kube.List[kube.Job](ctx, c, kube.Query{Namespace: space, Labels: kube.LabelRun + "=" + p.Fleet.ID})
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			pass, _ := strconv.Atoi(j.Labels[labelPass])
			i, err := parseIndex(j.Labels[labelIndex])
			network := j.Labels[labelNetwork]
			if err != nil || i >= len(p.Fleet.Nodes) || pass < 1 || pass > 2 ||
				j.Name != jobName(p.Fleet.ID, pass, i, network) || p.spaceOf(i) != space {
				continue // of somebody else
			}
			if network == pairs.Pod {
				f.Passes[pass-1] = append(f.Passes[pass-1], i)
			}
			f.Active += btoi(!isTrue(&j, "Complete") && !isTrue(&j, "Failed"))
		}
	}
	for _, nodes := range f.Passes {
		slices.Sort(nodes)
	}
	return f, nil
}

// isTrue reports whether a Job has a condition.
func isTrue(j *kube.Job, condition string) bool {
	c := kube.ConditionOf(j.Status.Conditions, condition)
	return c != nil && c.Status == "True"
}

// parseIndex reads the label of a node's index.
func parseIndex(text string) (int, error) {
	i, err := strconv.Atoi(text)
	if err != nil || i < 0 || strconv.Itoa(i) != text {
		return 0, fmt.Errorf("%.20q is no index of a node", text)
	}
	return i, nil
}

// Over reports whether nothing of a fleet runs, and nothing of it is to be expected.
func (f *Found) Over(now time.Time) bool {
	p := &f.Plan.Fleet
	pass := max(1, len(p.Starts))
	young := now.Sub(p.Began) < rampLimit(f.Plan.pods()) && len(p.Starts) == 0
	running := len(p.Starts) > 0 && now.Before(p.Starts[pass-1].Add(time.Duration(f.Plan.rounds(pass))*p.RoundOf(pass)))
	return f.Active == 0 && !young && !running
}
