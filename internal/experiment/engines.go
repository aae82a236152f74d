package experiment

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

// An Instance is an engine that the experiment defines, beside the built-in ones.
type Instance struct {
	Name    string            // in factors and tables
	Driver  string            // the kind of engine, such as "oci"
	Options map[string]string // of the driver, such as its binary; never nil
	Where   string            // the place of the definition, for errors: "FILE:LINE:COLUMN" or a flag
}

// A Driver is a kind of engine that instances can be made of.
type Driver struct {
	Name    string
	Options []string // the names of its options
}

// An instance keeps the places of an Instance's parts.
type instance struct {
	Instance
	at, driverAt yamldoc.Place
	optionAt     map[string]yamldoc.Place
}

// instances reads {NAME: {driver: DRIVER, OPTION: VALUE}}.
func instances() value[[]instance] {
	option := anyText()
	one := value[instance]{"an engine (a mapping with its driver)", schema{
		"type": "object", "required": []string{"driver"}, "additionalProperties": option.schema,
		"properties": schema{"driver": schema{"type": "string", "description": "The kind of engine."}},
	}, func(r *reader, n yamldoc.Node) (instance, bool) { return r.instance(n, option) }}
	return convert(named("a mapping of names to engines", one), func(entries []entry[instance]) []instance {
		out := make([]instance, len(entries))
		for i, e := range entries {
			out[i] = e.value
			out[i].Name, out[i].at = e.name, e.at
		}
		return out
	})
}

func (r *reader) instance(n yamldoc.Node, option value[string]) (instance, bool) {
	i := instance{Instance: Instance{Options: map[string]string{}}, optionAt: map[string]yamldoc.Place{}}
	if n.Kind != yamldoc.Mapping {
		r.WrongKind(n, "an engine (a mapping with its driver)")
		return i, false
	}
	for _, f := range n.Fields {
		r.readKey(f, func() {
			text, _ := option.read(r, f.Value) // what is wrong with it has been noted
			if f.Name == "driver" {
				i.Driver, i.driverAt = text, f.Value.At
				return
			}
			i.Options[f.Name], i.optionAt[f.Name] = text, f.At
		})
	}
	if _, ok := n.Field("driver"); !ok {
		r.Fail(n.At, `key "driver" is missing`, "write driver: oci, or another kind of engine")
	}
	return i, i.Driver != ""
}

// checkInstances checks the instances against the known drivers.
func (p *planner) checkInstances() {
	names := make([]string, len(p.known.Drivers))
	for i, d := range p.known.Drivers {
		names[i] = d.Name
	}
	for _, i := range p.file.engines {
		if _, err := parseIdentifier(i.Name); err != nil {
			p.Fail(i.at, err.Error(), "")
		} else if _, reserved := autoLimit(i.Name); reserved {
			p.Fail(i.at, fmt.Sprintf("an engine cannot be called %q", i.Name), "this name stands for the engines that are found")
		}
		d := slices.Index(names, i.Driver)
		if d < 0 {
			p.Fail(i.driverAt, fmt.Sprintf("unknown driver %s", yamldoc.Quote(i.Driver)), suggest(i.Driver, "drivers", names))
			continue
		}
		options := p.known.Drivers[d].Options
		for _, o := range slices.Sorted(maps.Keys(i.Options)) {
			if !slices.Contains(options, o) {
				p.Fail(i.optionAt[o], fmt.Sprintf("driver %q has no option %s", i.Driver, yamldoc.Quote(o)),
					suggest(o, "its options", options))
			}
		}
	}
}
