package experiment

import (
	"fmt"
	"maps"
	"strings"

	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

// A value says how one kind of value is read, and how its JSON schema
// describes it. Values are put together, like the YAML that they stand for:
// the parser, the schema and the reference in docs come from the one table of
// keys that is made of them.
type value[T any] struct {
	want   string // what people read: "a duration such as 30s"
	schema schema
	read   func(r *reader, n yamldoc.Node) (T, bool) // notes a problem and returns false where n is wrong
}

// A schema is a JSON schema.
type schema map[string]any

// word makes a value of a scalar. The parser's error is shown as it is.
func word[T any](want string, s schema, parse func(string) (T, error)) value[T] {
	return value[T]{want, s, func(r *reader, n yamldoc.Node) (T, bool) {
		var zero T
		if n.Kind != yamldoc.Scalar {
			r.WrongKind(n, want)
			return zero, false
		}
		v, err := parse(n.Text)
		if err != nil {
			r.Fail(n.At, err.Error(), "")
			return zero, false
		}
		return v, true
	}}
}

// oneOf makes a value of one of a few words. What names their kind in errors, such
// as "network".
func oneOf[T ~string](what string, words ...T) value[T] {
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = string(w)
	}
	want := strings.Join(names, ", ")
	return value[T]{"one of " + want, schema{"enum": words}, func(r *reader, n yamldoc.Node) (T, bool) {
		if n.Kind != yamldoc.Scalar {
			r.WrongKind(n, "one of "+want)
			return "", false
		}
		for _, w := range words {
			if string(w) == n.Text {
				return w, true
			}
		}
		r.Fail(n.At, fmt.Sprintf("unknown %s %s", what, yamldoc.Quote(n.Text)), suggest(n.Text, "known", names))
		return "", false
	}}
}

// withWord makes a value for which a word may stand, such as "off" for none.
func withWord[T any](v value[T], word string, meaning T) value[T] {
	s := schema{"anyOf": []any{v.schema, schema{"const": word}}}
	return value[T]{fmt.Sprintf("%s, or %q", v.want, word), s, func(r *reader, n yamldoc.Node) (T, bool) {
		if n.Kind == yamldoc.Scalar && n.Text == word {
			return meaning, true
		}
		return v.read(r, n)
	}}
}

// convert makes a value of B from one of A.
func convert[A, B any](v value[A], f func(A) B) value[B] {
	return value[B]{v.want, v.schema, func(r *reader, n yamldoc.Node) (B, bool) {
		a, ok := v.read(r, n)
		if !ok {
			var zero B
			return zero, false
		}
		return f(a), true
	}}
}

// checked adds what a value's parts cannot know: how they fit together.
// check notes a problem and returns false, and may complete the value.
func checked[T any](v value[T], check func(r *reader, n yamldoc.Node, t *T) bool) value[T] {
	return value[T]{v.want, v.schema, func(r *reader, n yamldoc.Node) (T, bool) {
		t, ok := v.read(r, n)
		return t, ok && check(r, n, &t)
	}}
}

// listOf makes a value of a list with at least one item.
func listOf[T any](item value[T]) value[[]T] {
	s := schema{"type": "array", "items": item.schema, "minItems": 1}
	return value[[]T]{"a list, each item " + item.want, s, func(r *reader, n yamldoc.Node) ([]T, bool) {
		if n.Kind == yamldoc.Scalar {
			r.Fail(n.At, "expected a list, but got a single value", fmt.Sprintf("write [%s]", n.Text))
			return nil, false
		}
		if n.Kind != yamldoc.List {
			r.WrongKind(n, "a list")
			return nil, false
		}
		if len(n.Items) == 0 {
			r.Fail(n.At, "the list is empty", "leave out the key, or add an item")
			return nil, false
		}
		var out []T
		all := true
		for _, i := range n.Items {
			v, ok := item.read(r, i)
			out, all = append(out, v), all && ok
		}
		return out, all
	}}
}

// A key is one key of a mapping: a line of the table.
type key[T any] struct {
	name     string
	doc      string // for people, one or two sentences
	example  string // YAML, the key included
	want     string // what the value is
	schema   schema
	required bool
	read     func(r *reader, n yamldoc.Node, into *T) // fills its part of T
}

// fieldOf makes a key that fills the field of T that the function returns.
func fieldOf[T, F any](name, doc, example string, v value[F], into func(*T) *F) key[T] {
	return key[T]{
		name: name, doc: doc, example: example, want: v.want, schema: v.schema, read: func(r *reader, n yamldoc.Node, t *T) {
			if f, ok := v.read(r, n); ok {
				*into(t) = f
			}
		},
	}
}

// required makes a key required.
func required[T any](k key[T]) key[T] {
	k.required = true
	return k
}

// object makes a value of a mapping with known keys. They are read in the
// order of the table, so that a key can rely on an earlier one.
func object[T any](what string, keys []key[T]) value[T] {
	return value[T]{what, objectSchema(keys), func(r *reader, n yamldoc.Node) (T, bool) {
		var out T
		if n.Kind != yamldoc.Mapping {
			r.WrongKind(n, what)
			return out, false
		}
		before := r.Count()
		names := keyNames(keys)
		for _, k := range keys {
			if f, ok := n.Field(k.name); ok {
				r.readKey(f, func() { k.read(r, f.Value, &out) })
			} else if k.required {
				r.Fail(n.At, fmt.Sprintf("key %q is missing", k.name), "write "+k.example)
			}
		}
		for _, f := range n.Fields {
			if _, ok := find(keys, f.Name); !ok {
				r.unknownKey(f, names)
			}
		}
		return out, before == r.Count()
	}}
}

// readKey refuses a key without a value, and otherwise reads it.
func (r *reader) readKey(f yamldoc.Field, read func()) {
	if f.Value.Kind == yamldoc.Null {
		r.Fail(f.At, fmt.Sprintf("key %q has no value", f.Name), "leave out the key, or give it a value")
		return
	}
	read()
}

func (r *reader) unknownKey(f yamldoc.Field, known []string) {
	hint := ""
	if !r.Full() { // otherwise the hint would not be kept
		hint = suggestion(f.Name, known)
	}
	r.Fail(f.At, fmt.Sprintf("unknown key %s", yamldoc.Quote(f.Name)), hint)
}

// suggestion says what an unknown key may have meant, here or elsewhere.
func suggestion(name string, known []string) string {
	if _, near := Nearest(name, known); !near {
		if elsewhere, ok := belongs(name, known); ok {
			return elsewhere
		}
	}
	return suggest(name, "keys here", known)
}

func find[T any](keys []key[T], name string) (key[T], bool) {
	for _, k := range keys {
		if k.name == name {
			return k, true
		}
	}
	return key[T]{}, false
}

func keyNames[T any](keys []key[T]) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	return names
}

func objectSchema[T any](keys []key[T]) schema {
	properties := schema{}
	var required []string
	for _, k := range keys {
		p := schema{"description": k.doc}
		maps.Copy(p, k.schema)
		properties[k.name] = p
		if k.required {
			required = append(required, k.name)
		}
	}
	s := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if required != nil {
		s["required"] = required
	}
	return s
}

// named makes a value of a mapping from names of the user's own to values.
func named[T any](what string, v value[T]) value[[]entry[T]] {
	s := schema{"type": "object", "additionalProperties": v.schema, "minProperties": 1}
	return value[[]entry[T]]{what, s, func(r *reader, n yamldoc.Node) ([]entry[T], bool) {
		if n.Kind != yamldoc.Mapping {
			r.WrongKind(n, what)
			return nil, false
		}
		var out []entry[T]
		all := true
		for _, f := range n.Fields {
			r.readKey(f, func() {
				t, ok := v.read(r, f.Value)
				out, all = append(out, entry[T]{f.Name, f.At, t}), all && ok
			})
		}
		return out, all
	}}
}

// An entry is one name of the user's own and its value.
type entry[T any] struct {
	name  string
	at    yamldoc.Place
	value T
}

// located keeps the place of a value, for problems that are found later.
func located[T any](v value[T]) value[placed[T]] {
	return value[placed[T]]{v.want, v.schema, func(r *reader, n yamldoc.Node) (placed[T], bool) {
		t, ok := v.read(r, n)
		return placed[T]{t, n.At, true}, ok
	}}
}

// placed is a value with its place.
type placed[T any] struct {
	value T
	at    yamldoc.Place
	set   bool // it was given
}

// or returns the value, or what stands for it where none was given.
func (a placed[T]) or(otherwise T) T {
	if a.set {
		return a.value
	}
	return otherwise
}
