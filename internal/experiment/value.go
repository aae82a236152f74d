package experiment

import (
	"fmt"
	"maps"
	"strings"
)

// A value says how one kind of value is read, and how its JSON schema
// describes it. Values are put together, like the YAML that they stand for:
// the parser, the schema and the reference in docs come from the one table of
// keys that is made of them.
type value[T any] struct {
	want   string // what people read: "a duration such as 30s"
	schema schema
	read   func(r *reader, n node) (T, bool) // notes a problem and returns false where n is wrong
}

// A schema is a JSON schema.
type schema map[string]any

// word makes a value of a scalar. The parser's error is shown as it is.
func word[T any](want string, s schema, parse func(string) (T, error)) value[T] {
	return value[T]{want, s, func(r *reader, n node) (T, bool) {
		var zero T
		if n.kind != scalar {
			r.wrongKind(n, want)
			return zero, false
		}
		v, err := parse(n.text)
		if err != nil {
			r.fail(n.at, err.Error(), "")
			return zero, false
		}
		return v, true
	}}
}

// wrongKind notes that a list stands where a word should, and the like.
func (r *reader) wrongKind(n node, want string) {
	r.fail(n.at, fmt.Sprintf("%s is wanted here, not %s", want, n.kind), "")
}

// oneOf makes a value of a word that is one of a few. What it is one of is for
// the error: "network".
func oneOf[T ~string](what string, words ...T) value[T] {
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = string(w)
	}
	want := strings.Join(names, ", ")
	return value[T]{"one of " + want, schema{"enum": words}, func(r *reader, n node) (T, bool) {
		if n.kind != scalar {
			r.wrongKind(n, "one of "+want)
			return "", false
		}
		for _, w := range words {
			if string(w) == n.text {
				return w, true
			}
		}
		r.fail(n.at, fmt.Sprintf("unknown %s %s", what, quote(n.text)), suggest(n.text, "known are", names))
		return "", false
	}}
}

// or makes a value for which a word may stand, such as "off" for none.
func or[T any](v value[T], word string, meaning T) value[T] {
	s := schema{"anyOf": []any{v.schema, schema{"const": word}}}
	return value[T]{fmt.Sprintf("%s, or %q", v.want, word), s, func(r *reader, n node) (T, bool) {
		if n.kind == scalar && n.text == word {
			return meaning, true
		}
		return v.read(r, n)
	}}
}

// convert makes a value of B from one of A.
func convert[A, B any](v value[A], f func(A) B) value[B] {
	return value[B]{v.want, v.schema, func(r *reader, n node) (B, bool) {
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
func checked[T any](v value[T], check func(r *reader, n node, t *T) bool) value[T] {
	return value[T]{v.want, v.schema, func(r *reader, n node) (T, bool) {
		t, ok := v.read(r, n)
		return t, ok && check(r, n, &t)
	}}
}

// listOf makes a value of a list with at least one item.
func listOf[T any](item value[T]) value[[]T] {
	s := schema{"type": "array", "items": item.schema, "minItems": 1}
	return value[[]T]{"a list, each item " + item.want, s, func(r *reader, n node) ([]T, bool) {
		if n.kind == scalar {
			r.fail(n.at, "a list is wanted here, not a single value", fmt.Sprintf("write [%s]", n.text))
			return nil, false
		}
		if n.kind != list {
			r.wrongKind(n, "a list")
			return nil, false
		}
		if len(n.items) == 0 {
			r.fail(n.at, "the list is empty", "leave the key out, or name something")
			return nil, false
		}
		var out []T
		all := true
		for _, i := range n.items {
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
	read     func(r *reader, n node, into *T) // fills its part of T
}

// fieldOf makes a key that fills the field of T that the function returns.
func fieldOf[T, F any](name, doc, example string, v value[F], into func(*T) *F) key[T] {
	return key[T]{name: name, doc: doc, example: example, want: v.want, schema: v.schema, read: func(r *reader, n node, t *T) {
		if f, ok := v.read(r, n); ok {
			*into(t) = f
		}
	}}
}

// must makes a key required.
func must[T any](k key[T]) key[T] {
	k.required = true
	return k
}

// object makes a value of a mapping with known keys. They are read in the
// order of the table, so that a key can rely on an earlier one.
func object[T any](what string, keys []key[T]) value[T] {
	return value[T]{what, objectSchema(keys), func(r *reader, n node) (T, bool) {
		var out T
		if n.kind != mapping {
			r.wrongKind(n, what)
			return out, false
		}
		before := len(r.problems) + r.more
		names := keyNames(keys)
		for _, k := range keys {
			if f, ok := n.field(k.name); ok {
				r.readKey(f, func() { k.read(r, f.value, &out) })
			} else if k.required {
				r.fail(n.at, fmt.Sprintf("key %q is missing", k.name), "write "+k.example)
			}
		}
		for _, f := range n.fields {
			if _, ok := find(keys, f.name); !ok {
				r.unknownKey(f, names)
			}
		}
		return out, before == len(r.problems)+r.more
	}}
}

// readKey refuses a key without a value, and otherwise reads it.
func (r *reader) readKey(f field, read func()) {
	if f.value.kind == null {
		r.fail(f.at, fmt.Sprintf("key %q has no value", f.name), "leave it out, or give it one")
		return
	}
	read()
}

func (r *reader) unknownKey(f field, known []string) {
	if r.full() {
		r.more++ // saves looking for what was meant
		return
	}
	hint := suggest(f.name, "keys here", known)
	if _, near := nearest(f.name, known); !near {
		if elsewhere, ok := belongs(f.name, known); ok {
			hint = elsewhere
		}
	}
	r.fail(f.at, fmt.Sprintf("unknown key %s", quote(f.name)), hint)
}

// field returns the field of a mapping that has the given name.
func (n node) field(name string) (field, bool) {
	for _, f := range n.fields {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
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
	return value[[]entry[T]]{what, s, func(r *reader, n node) ([]entry[T], bool) {
		if n.kind != mapping {
			r.wrongKind(n, what)
			return nil, false
		}
		var out []entry[T]
		all := true
		for _, f := range n.fields {
			r.readKey(f, func() {
				t, ok := v.read(r, f.value)
				out, all = append(out, entry[T]{f.name, f.at, t}), all && ok
			})
		}
		return out, all
	}}
}

// An entry is one name of the user's own and its value.
type entry[T any] struct {
	name  string
	at    span
	value T
}

// located keeps the place of a value, for problems that are found later.
func located[T any](v value[T]) value[at[T]] {
	return value[at[T]]{v.want, v.schema, func(r *reader, n node) (at[T], bool) {
		t, ok := v.read(r, n)
		return at[T]{t, n.at, true}, ok
	}}
}

// at is a value with its place.
type at[T any] struct {
	value T
	at    span
	set   bool // it was given
}

// or returns the value, or what stands for it where none was given.
func (a at[T]) or(otherwise T) T {
	if a.set {
		return a.value
	}
	return otherwise
}
