package ab_test

import (
	"testing"

	"github.com/tare-bench/tare/internal/foreign/ab"
	"github.com/tare-bench/tare/internal/foreign/foreigntest"
)

func TestRead(t *testing.T) { foreigntest.Golden(t, ab.Source(), "testdata/*.txt") }

const banner = "This is ApacheBench, Version 2.3 <$Revision$>\n"

func FuzzRead(f *testing.F) {
	foreigntest.Fuzz(f, ab.Source(), "testdata/*.txt", banner+banner+"Time taken for tests:   1e 2 seconds\n", banner[:28])
}

func TestWrongFiles(t *testing.T) {
	foreigntest.Refused(t, ab.Source(), `"This is ApacheBench"`, map[string]string{
		"":                        "f: there is no result of ab in it",
		"Requests/sec: 12345.6\n": "f: there is no result of ab in it",
		"\n" + banner + "Time taken for tests:   1.2 seconds\n": `f:2: the result has no line "Complete requests"`,
		banner + "Complete requests:      9\nFailed requests:        0\nTotal transferred:      9 bytes\nDocument Length:        9 bytes\n" +
			"Time per request:       1 [ms] (mean)\nTime taken for tests:   0.0 seconds\n": "f:1: the result has no time above zero",
	})
}
