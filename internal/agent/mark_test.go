package agent_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/agent"
)

func TestParseMark(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       agent.Mark
		ok         bool
	}{
		{"typical", "tare-mark v1 first=1721514209546 last=1721515946913\n", agent.Mark{First: 1721514209546, Last: 1721515946913}, true},
		{"at once", "tare-mark v1 first=1 last=1\n", agent.Mark{First: 1, Last: 1}, true},
		{"longest", "tare-mark v1 first=9223372036854775807 last=9223372036854775807\n", agent.Mark{First: 1<<63 - 1, Last: 1<<63 - 1}, true},
		{name: "nothing"},
		{name: "no newline", text: "tare-mark v1 first=1 last=2"},
		{name: "twice", text: "tare-mark v1 first=1 last=2\ntare-mark v1 first=1 last=2\n"},
		{name: "something before", text: "warning\ntare-mark v1 first=1 last=2\n"},
		{name: "other version", text: "tare-mark v2 first=1 last=2\n"},
		{name: "backwards", text: "tare-mark v1 first=2 last=1\n"},
		{name: "zero", text: "tare-mark v1 first=0 last=1\n"},
		{name: "negative", text: "tare-mark v1 first=-1 last=1\n"},
		{name: "sign", text: "tare-mark v1 first=+1 last=2\n"},
		{name: "leading zero", text: "tare-mark v1 first=01 last=2\n"},
		{name: "too large", text: "tare-mark v1 first=1 last=9223372036854775808\n"},
		{name: "no last", text: "tare-mark v1 first=1\n"},
		{name: "carriage return", text: "tare-mark v1 first=1 last=2\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := agent.ParseMark([]byte(test.text))
			if got != test.want || (err == nil) != test.ok {
				t.Errorf("ParseMark(%q) = %v, %v, want %v", test.text, got, err, test.want)
			}
			if err != nil && !errors.Is(err, agent.ErrMark) {
				t.Errorf("ParseMark(%q): error %v, want one that wraps ErrMark", test.text, err)
			}
		})
	}
}

func FuzzParseMark(f *testing.F) {
	f.Add([]byte("tare-mark v1 first=1 last=2\n"))
	f.Add([]byte("tare-mark v1 first=-0 last=9999999999999999999\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := agent.ParseMark(b)
		if err == nil && m.String() != string(b) {
			t.Errorf("ParseMark(%q) = %#v, which is written %q", b, m, m.String())
		}
	})
}

func FuzzMark(f *testing.F) {
	f.Add(int64(1), int64(2))
	f.Fuzz(func(t *testing.T, first, last int64) {
		want := agent.Mark{First: time.Duration(first), Last: time.Duration(last)}
		got, err := agent.ParseMark([]byte(want.String()))
		valid := 0 < first && first <= last
		if valid != (err == nil) || valid && got != want {
			t.Errorf("ParseMark(%q) = %v, %v, want %v", want.String(), got, err, want)
		}
	})
}
