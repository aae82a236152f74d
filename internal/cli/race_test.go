//go:build race

package cli_test

// raceDetector says whether the tests, and so tare, have the race detector.
const raceDetector = true
