package inspect

import (
	"cmp"
	"slices"
	"strings"
)

// A Comparison compares several images: the content of each, and what they share.
type Comparison struct {
	Images []*Report     `json:"images"`
	Shared []SharedLayer `json:"shared_layers"` // in the order of the first image that has it
	Config []Difference  `json:"config"`        // settings that differ, by name; none with one image
}

// A SharedLayer is a layer that several images have: it is stored and fetched once.
type SharedLayer struct {
	DiffID string `json:"diff_id"`
	Bytes  int64  `json:"unpacked_bytes"`
	Images []int  `json:"images"` // indices into Comparison.Images
}

// A Difference is a setting that is not the same in all images: the value of each image; empty if
// an image does not have it.
type Difference struct {
	What   string   `json:"what"`
	Values []string `json:"values"`
}

// Compare compares images.
func Compare(images []*Report) Comparison {
	return Comparison{Images: images, Shared: sharedLayers(images), Config: differences(images)}
}

func sharedLayers(images []*Report) []SharedLayer {
	all := []SharedLayer{}
	at := map[string]int{}
	for i, r := range images {
		for _, l := range r.Layers {
			n, known := at[l.DiffID]
			if !known {
				n = len(all)
				at[l.DiffID] = n
				all = append(all, SharedLayer{DiffID: l.DiffID, Bytes: l.Unpacked})
			}
			if !slices.Contains(all[n].Images, i) {
				all[n].Images = append(all[n].Images, i)
			}
		}
	}
	return slices.DeleteFunc(all, func(l SharedLayer) bool { return len(l.Images) < 2 })
}

// A setting is a name and its value in one image.
type setting struct{ name, value string }

// differences are the settings in which the images differ, by name.
func differences(images []*Report) []Difference {
	values := map[string][]string{}
	for i, r := range images {
		for _, s := range settings(r) {
			if values[s.name] == nil {
				values[s.name] = make([]string, len(images))
			}
			values[s.name][i] = strings.TrimPrefix(values[s.name][i]+", "+s.value, ", ")
		}
	}
	all := []Difference{}
	for name, v := range values {
		if len(slices.Compact(slices.Clone(v))) > 1 {
			all = append(all, Difference{What: name, Values: v})
		}
	}
	slices.SortFunc(all, func(a, b Difference) int { return cmp.Compare(a.What, b.What) })
	return all
}

// settings are the settings of the image's configuration, with the default for those that it leaves
// out.
func settings(r *Report) []setting {
	c := r.Config
	all := []setting{
		{"user", cmp.Or(c.User, "root")},
		{"entry point", QuoteArgs(c.Entrypoint)},
		{"command", QuoteArgs(c.Cmd)},
		{"directory", cmp.Or(c.Dir, "/")},
		{"ports", strings.Join(c.Ports, " ")},
		{"volumes", strings.Join(c.Volumes, " ")},
		{"stop signal", c.StopSignal},
		{"health check", QuoteArgs(c.Health)},
	}
	for _, kind := range []struct {
		name  string
		pairs []string
	}{{"environment ", c.Env}, {"label ", c.Labels}} {
		for _, pair := range kind.pairs {
			key, value, _ := strings.Cut(pair, "=")
			all = append(all, setting{kind.name + key, cmp.Or(value, `""`)})
		}
	}
	return all
}

// QuoteArgs formats a command so that its arguments can be told apart.
func QuoteArgs(argv []string) string {
	var all []string
	for _, word := range argv {
		if word == "" || strings.ContainsAny(word, " \t\n\"'\\$;*?&|<>()[]{}~#`!") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		all = append(all, word)
	}
	return strings.Join(all, " ")
}
