package hostsuite

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Limits of what is read from one file.
const (
	maxDepth  = 20
	maxLeaves = 20_000
)

// A leaf is one value of a JSON document with its path.
type leaf struct {
	path []string // keys from the top, without positions in lists
	nth  int      // position in the nearest list, from 0
	text string   // the value: a number or a string
}

// name is the path for people.
func (l leaf) name() string { return strings.Join(l.path, ".") }

// words are the words of the path, in lower case.
func (l leaf) words() (all []string) {
	for _, key := range l.path {
		all = append(all, split(key)...)
	}
	return all
}

// split cuts a key into words: at everything that is no letter and no digit, between a small and a capital
// letter, and between letters and digits.
func split(key string) (words []string) {
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
		}
		word = nil
	}
	var last rune
	for _, r := range key {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
			last = r
			continue
		case unicode.IsLower(last) && unicode.IsUpper(r), unicode.IsDigit(last) != unicode.IsDigit(r):
			end()
		}
		word, last = append(word, r), r
	}
	end()
	return words
}

// leaves lists the values of a document, in the order of their paths.
func leaves(text []byte) ([]leaf, error) {
	var document any
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err := d.Decode(&document); err != nil {
		return nil, fmt.Errorf("its JSON is damaged: %w", err)
	}
	if _, ok := document.(map[string]any); !ok {
		return nil, fmt.Errorf("it is not an object of JSON")
	}
	w := walk{}
	if err := w.add(document, nil, 0, 0); err != nil {
		return nil, err
	}
	return w.all, nil
}

type walk struct{ all []leaf }

func (w *walk) add(v any, path []string, nth, depth int) error {
	if depth > maxDepth || len(w.all) > maxLeaves {
		return fmt.Errorf("it has more than %d values, or more than %d levels", maxLeaves, maxDepth)
	}
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			if err := w.add(v[key], append(slices.Clip(path), key), nth, depth+1); err != nil {
				return err
			}
		}
	case []any:
		for i, one := range v {
			if err := w.add(one, path, i, depth+1); err != nil {
				return err
			}
		}
	case json.Number:
		w.all = append(w.all, leaf{path, nth, v.String()})
	case string:
		w.all = append(w.all, leaf{path, nth, v})
	}
	return nil
}

// amount reads a number, with or without a unit after it, such as "12.5 ms".
func amount(text string) (value float64, unit string, ok bool) {
	text = strings.TrimSpace(text)
	end := strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789.eE+-", r) })
	if end < 0 {
		end = len(text)
	}
	value, err := strconv.ParseFloat(text[:end], 64)
	if err != nil && end > 0 && strings.ContainsRune("eE", rune(text[end-1])) { // as in "3events"
		end--
		value, err = strconv.ParseFloat(text[:end], 64)
	}
	return value, strings.TrimSpace(text[end:]), err == nil && value >= 0 && value < 1e18
}
