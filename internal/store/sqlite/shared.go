package sqlite

import (
	"database/sql"
	"slices"
)

// maxShared limits how many different texts or lists the samples of a run share.
const maxShared = 1024

// texts are texts of samples, each one once.
type texts map[string]string

// of returns a text of a row.
func (t texts) of(text sql.RawBytes) string {
	if known, ok := t[string(text)]; ok {
		return known
	}
	own := string(text)
	if len(t) < maxShared {
		t[own] = own
	}
	return own
}

// lists are lists of samples by their JSON. Samples with the same JSON share one list, which must not be
// changed; what is appended goes to a copy.
type lists[T any] map[string][]T

// decoded returns the list in a column; nil for NULL.
func (l lists[T]) decoded(text sql.RawBytes) ([]T, error) {
	if known, ok := l[string(text)]; ok || text == nil {
		return known, nil
	}
	list, err := decodeJSON[[]T](text)
	if err != nil {
		return nil, err
	}
	list = slices.Clip(list)
	if len(l) < maxShared {
		l[string(text)] = list
	}
	return list, nil
}
