package inspect

import (
	"cmp"
	"slices"
	"strings"
)

// A Comparison is what several images have, have in common, and have not.
type Comparison struct {
	Images []*Report     `json:"images"`
	Shared []SharedLayer `json:"shared_layers"` // in the order of the first image that has it
	// What differs; with one image there is nothing in them.
	Packages []Difference `json:"packages"` // by name
	Config   []Difference `json:"config"`
	// Files and symbolic links by path: digest, permissions and owner, or a target.
	Files []Difference `json:"files"`
}

// A SharedLayer is a layer that several images have: it is stored and fetched once.
type SharedLayer struct {
	DiffID string `json:"diff_id"`
	Bytes  int64  `json:"unpacked_bytes"`
	Images []int  `json:"images"` // of Comparison.Images
}

// A Difference is something that is not the same in all images: what each of
// them has, and empty where it has nothing.
type Difference struct {
	What   string   `json:"what"`
	Values []string `json:"values"`
}

// OnlyIn is the one image that has it; -1 if several have.
func (d Difference) OnlyIn() int {
	only := -1
	for i, v := range d.Values {
		switch {
		case v == "":
		case only >= 0:
			return -1
		default:
			only = i
		}
	}
	return only
}

// Compare says what differs between images.
func Compare(images []*Report) Comparison {
	c := Comparison{Images: images, Shared: shared(images), Packages: []Difference{}, Config: []Difference{}, Files: []Difference{}}
	if len(images) > 1 {
		c.Packages = differences(images, packagesOf)
		c.Config = differences(images, settings)
		c.Files = fileDifferences(images)
	}
	return c
}

func shared(images []*Report) []SharedLayer {
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

// differences are the settings that the images do not agree on, by name.
func differences(images []*Report, of func(*Report) []setting) []Difference {
	values := map[string][]string{}
	for i, r := range images {
		for _, s := range of(r) {
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

// packagesOf are the packages of an image. Two architectures of one package have
// the versions of both.
func packagesOf(r *Report) []setting {
	var all []setting
	for _, p := range r.Packages {
		all = append(all, setting{p.Name, cmp.Or(p.Version, "unknown")})
	}
	return all
}

// settings are what the image's configuration says, or what it means if it says
// nothing.
func settings(r *Report) []setting {
	c := r.Config
	all := []setting{
		{"user", cmp.Or(c.User, "root")},
		{"entry point", Words(c.Entrypoint)},
		{"command", Words(c.Cmd)},
		{"directory", cmp.Or(c.Dir, "/")},
		{"ports", strings.Join(c.Ports, " ")},
		{"volumes", strings.Join(c.Volumes, " ")},
		{"stop signal", c.StopSignal},
		{"health check", Words(c.Health)},
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

// Words shows the words of a command so that they can be told apart.
func Words(argv []string) string {
	var all []string
	for _, word := range argv {
		if word == "" || strings.ContainsAny(word, " \t\n\"'") {
			word = `"` + strings.ReplaceAll(word, `"`, `\"`) + `"`
		}
		all = append(all, word)
	}
	return strings.Join(all, " ")
}
