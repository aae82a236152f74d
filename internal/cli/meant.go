package cli

import (
	"fmt"
	"slices"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/experiment"
)

// meant says what to type in place of a word that is no command but a common one of other
// programs, or the name of something that a command takes. It is empty for other words.
func meant(word string) string {
	if _, builtin := experiment.Builtin(word); builtin {
		return fmt.Sprintf("%s is an experiment: tare run %s", word, word)
	}
	if slices.Contains(app.Names(app.Builtin()), word) {
		return fmt.Sprintf("%s is an engine: tare run --engine native,%s", word, word)
	}
	switch word {
	case "bench", "benchmark", "measure", "test":
		return "did you mean run?"
	case "ps", "history":
		return "did you mean list?"
	case "diff":
		return "did you mean compare?"
	case "logs", "result", "results":
		return "did you mean show?"
	case "engines", "check-engines", "info":
		return "did you mean doctor?"
	case "why", "trace", "profile":
		return "did you mean explain?"
	case "continue":
		return "did you mean resume?"
	case "experiments":
		return "'tare run --help' lists the built-in experiments"
	case "workloads", "options":
		return "'tare params' lists the workloads and their options"
	default:
		return ""
	}
}
