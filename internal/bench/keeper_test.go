package bench_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

func TestValidRunName(t *testing.T) {
	for name, valid := range map[string]bool{
		"before-upgrade": true, "a": true, "v1.2_RC-3": true, "lastly": true, strings.Repeat("a", bench.MaxRunName): true,
		"": false, "last": false, "LAST": false, "1st": false, "20261120-214503-k3f9": false, "-a": false, ".a": false,
		"a b": false, "a/b": false, "a\n": false, "é": false, "aé": false, "a\x00": false,
		strings.Repeat("a", bench.MaxRunName+1): false,
	} {
		if err := bench.ValidRunName(name); (err == nil) != valid || err != nil && !errors.Is(err, bench.ErrRunName) {
			t.Errorf("ValidRunName(%q) = %v, want valid %v", name, err, valid)
		}
	}
}

func TestValidRemark(t *testing.T) {
	now := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		r     bench.Remark
		valid bool
	}{
		{bench.Remark{Time: now, Text: "日本\x1b\n"}, true},
		{bench.Remark{Time: now, Text: strings.Repeat("a", bench.MaxRemark)}, true},
		{bench.Remark{Time: now, Text: strings.Repeat("a", bench.MaxRemark+1)}, false},
		{bench.Remark{Time: now, Text: "\t\n "}, false},
		{bench.Remark{Time: now, Text: "\xff"}, false},
		{bench.Remark{Text: "a"}, false},
	} {
		if err := bench.ValidRemark(tt.r); (err == nil) != tt.valid {
			t.Errorf("ValidRemark(%.20q at %v) = %v, want valid %v", tt.r.Text, tt.r.Time, err, tt.valid)
		}
	}
}
