package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/app"
)

// parseEngines reads --engine: names separated by commas, where NAME=VALUE
// belongs to the engine before it, so that "docker,name=new,host=unix:///x"
// declares an instance "new" of docker beside it.
func parseEngines(flags []string) (chosen []string, declared []app.Instance, err error) {
	var open *app.Instance
	finish := func() {
		if open != nil {
			chosen = append(chosen, open.Name)
			if len(open.Options) > 0 || slices.Contains(app.Names(app.OnRequest()), open.Name) {
				declared = append(declared, *open)
			}
			open = nil
		}
	}
	for _, flag := range flags {
		for word := range strings.SplitSeq(flag, ",") {
			key, value, isOption := strings.Cut(word, "=")
			switch {
			case !isOption:
				finish()
				open = declare(strings.TrimSpace(word))
			case open == nil:
				return nil, nil, &usageError{
					fmt.Errorf("--engine %q: option %q belongs to no engine", flag, word), "write ENGINE,OPTION=VALUE",
				}
			case key == "name":
				open.Name = value
				open.Options = maps.Clone(open.Options)
				open.Options["name"] = value
			default:
				open.Options = maps.Clone(open.Options)
				open.Options[key] = value
			}
		}
		finish()
	}
	for i := range declared {
		delete(declared[i].Options, "name")
	}
	return chosen, declared, nil
}

// declare begins an instance like the built-in of a name, or of the driver of
// that name.
func declare(name string) *app.Instance {
	for _, b := range app.Builtin() {
		if b.Name == name {
			if b.Options == nil {
				b.Options = map[string]string{}
			}
			return &b
		}
	}
	return &app.Instance{Name: name, Driver: name, Options: map[string]string{}}
}
