package experiment

import (
	"fmt"
	"maps"
	"slices"
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
	at, driverAt span
	optionAt     map[string]span
}

// instances reads {NAME: {driver: DRIVER, OPTION: VALUE}}.
func instances() value[[]instance] {
	option := anyText()
	one := value[instance]{"an engine, a mapping with its driver", schema{
		"type": "object", "required": []string{"driver"}, "additionalProperties": option.schema,
		"properties": schema{"driver": schema{"type": "string", "description": "The kind of engine."}},
	}, func(r *reader, n node) (instance, bool) { return r.instance(n, option) }}
	return convert(named("a mapping of names to engines", one), func(entries []entry[instance]) []instance {
		out := make([]instance, len(entries))
		for i, e := range entries {
			out[i] = e.value
			out[i].Name, out[i].at = e.name, e.at
		}
		return out
	})
}

func (r *reader) instance(n node, option value[string]) (instance, bool) {
	i := instance{Instance: Instance{Options: map[string]string{}}, optionAt: map[string]span{}}
	if n.kind != mapping {
		r.wrongKind(n, "an engine, a mapping with its driver,")
		return i, false
	}
	for _, f := range n.fields {
		r.readKey(f, func() {
			text, _ := option.read(r, f.value) // what is wrong with it has been noted
			if f.name == "driver" {
				i.Driver, i.driverAt = text, f.value.at
				return
			}
			i.Options[f.name], i.optionAt[f.name] = text, f.at
		})
	}
	if _, ok := n.field("driver"); !ok {
		r.fail(n.at, `key "driver" is missing`, "write driver: oci, or another kind of engine")
	}
	return i, i.Driver != ""
}

// checkInstances holds the instances to the drivers that there are.
func (p *planner) checkInstances() {
	names := make([]string, len(p.known.Drivers))
	for i, d := range p.known.Drivers {
		names[i] = d.Name
	}
	for _, i := range p.file.engines {
		if _, err := parseIdentifier(i.Name); err != nil {
			p.fail(i.at, err.Error(), "")
		} else if i.Name == auto {
			p.fail(i.at, `an engine cannot be called "auto"`, "it stands for every engine found")
		}
		d := slices.Index(names, i.Driver)
		if d < 0 {
			p.fail(i.driverAt, fmt.Sprintf("unknown driver %s", quote(i.Driver)), suggest(i.Driver, "drivers", names))
			continue
		}
		options := p.known.Drivers[d].Options
		for _, o := range slices.Sorted(maps.Keys(i.Options)) {
			if !slices.Contains(options, o) {
				p.fail(i.optionAt[o], fmt.Sprintf("driver %q has no option %s", i.Driver, quote(o)), suggest(o, "its options", options))
			}
		}
	}
}
