package experiment

import (
	"fmt"
	"strconv"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/unit"
)

// Defaults are the values of keys that an experiment leaves out, as they would be written
// in it, by key; a key in a mapping is "timeouts.trial".
func Defaults() map[string]string {
	return map[string]string{
		"blocks":             fmt.Sprintf("%d..%d", defaultMinBlocks, defaultMaxBlocks),
		"budget":             unit.FormatDuration(defaultBudget),
		"precision":          strconv.FormatFloat(100*defaultPrecision, 'g', -1, 64) + "%",
		"smallest":           "auto",
		"warmup":             strconv.Itoa(defaultWarmup),
		"interleave":         "off",
		"washout":            unit.FormatDuration(defaultWashout),
		"timeouts.trial":     unit.FormatDuration(defaultTrial),
		"timeouts.operation": unit.FormatDuration(defaultOperation),
	}
}

// Networks are the words of the factor network.
func Networks() []string {
	out := []string{native}
	for _, n := range networks() {
		out = append(out, n.word)
	}
	return out
}

// Storages are the words of the factor storage.
func Storages() []string { return []string{"layer", "volume", "bind", "tmpfs"} }

// FactorNames are the factors that an experiment of every workload can have, whose
// levels are plain words.
func FactorNames() []string { return factorNames() }

// Primary lists the metrics that decide; empty = those of the workload.
func (e *Experiment) Primary() (all []string) {
	for _, m := range e.file.primary {
		all = append(all, m.value)
	}
	return all
}

// Params are the options of the workload that the experiment sets for every cell, in the
// order in which it does. Those that vary are factors or conditions.
func (e *Experiment) Params() (all []bench.Label) {
	for _, s := range e.file.settings {
		if name, ok := s.option(); ok {
			all = append(all, bench.Label{Key: name, Value: s.text})
		}
	}
	return all
}
