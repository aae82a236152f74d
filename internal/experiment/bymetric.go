package experiment

import (
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

// byMetric is one number for all metrics, and others for those that are named.
type byMetric struct {
	all placed[float64]
	one []entry[float64]
}

// of returns the value of a metric that is named.
func (b *byMetric) of(metric string) (said entry[float64], named bool) {
	i := slices.IndexFunc(b.one, func(e entry[float64]) bool { return e.name == metric })
	if i < 0 {
		return said, false
	}
	return b.one[i], true
}

// override lays later words over earlier ones: a number for all replaces them, and one
// for a metric that metric's.
func (b *byMetric) override(over byMetric) {
	if over.all.set {
		*b = over
		return
	}
	for _, e := range over.one {
		same := func(old entry[float64]) bool { return old.name == e.name }
		b.one = append(slices.DeleteFunc(slices.Clone(b.one), same), e)
	}
}

// byMetricKey makes a key whose value is one v, or a mapping from metrics to v. Read
// again, it is laid over what was there.
func byMetricKey(name, doc, example string, v value[float64], into func(*file) *byMetric) key[file] {
	all, one := located(v), named("a mapping of metrics to values", v)
	want := v.want + ", or a mapping of metrics to these"
	read := func(r *reader, n yamldoc.Node) (b byMetric, ok bool) {
		switch n.Kind {
		case yamldoc.Mapping:
			b.one, ok = one.read(r, n)
		case yamldoc.Scalar:
			b.all, ok = all.read(r, n)
		default:
			r.WrongKind(n, want)
		}
		return b, ok
	}
	return key[file]{
		name: name, doc: doc, example: example, want: want, schema: schema{"anyOf": []any{all.schema, one.schema}},
		read: func(r *reader, n yamldoc.Node, f *file) {
			if b, ok := read(r, n); ok {
				into(f).override(b)
			}
		},
	}
}

// flagByMetric reads what the flags of one name say, such as "3%" and "total=5%",
// as the file would have said it: first what is for all metrics, then what is for one.
func flagByMetric(name string, texts []string) (all []yamldoc.Field) {
	one := flagField(name, yamldoc.Node{Kind: yamldoc.Mapping})
	for _, t := range texts {
		metric, v, named := strings.Cut(t, "=")
		if !named {
			all = append(all, flagField(name, yamldoc.Node{Kind: yamldoc.Scalar, Text: t}))
			continue
		}
		one.Value.Fields = append(one.Value.Fields, yamldoc.Field{
			Name: metric, At: one.At, Value: yamldoc.Node{Kind: yamldoc.Scalar, Text: v, At: one.At},
		})
	}
	if len(one.Value.Fields) > 0 {
		all = append(all, one)
	}
	return all
}
