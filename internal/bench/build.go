package bench

import (
	"context"
	"strings"
	"time"
)

// An ImageBuilder builds images into its own store, with the command of the engine's users.
type ImageBuilder interface {
	// BuildTool says what Build would use for a Build.Builder, with all versions. It wraps
	// ErrUnsupported if there is no such builder. It is never timed.
	BuildTool(ctx context.Context, builder string) (string, error)

	// Build runs the command and returns once it has ended: the steps are what the builder's progress
	// told, on the clock now or on its own. If a step fails, the error names it, with the last
	// lines of what it printed. If ctx ends, the command is ended.
	Build(ctx context.Context, b Build, now func() time.Duration) ([]BuildStep, error)

	// Built reads back the image of the last Build. It is never timed.
	Built(ctx context.Context, b Build) (BuiltImage, error)

	// RemoveBuild removes what builds with this mark have made, as far as the builder tells whose it
	// is: images of all steps, containers, records of the cache. Nothing else is removed. Like Remove
	// of a container, it works after the trial's context has ended, and may be called twice.
	RemoveBuild(ctx context.Context, b Build) error
}

// A Build is an image to be built from a build file.
type Build struct {
	// Mark is the value of BuildLabel in each stage of the file, see BuildMark.
	Mark    string
	File    string // absolute path of the build file
	Context string // absolute path of the directory from which the file copies
	Base    string // reference of the image that the file knows as BuildBase; empty = it does not use it
	Builder string // BuilderClassic or BuilderKit; empty = what the command uses by itself
	Cached  bool   // steps may come from the cache
}

// The builders of an engine that has both.
const (
	BuilderClassic = "classic"
	BuilderKit     = "buildkit"
)

// BuildBase is the build argument that names the image of Build.Base.
const BuildBase = "TARE_BASE"

// RunLabel is the label of every object of a run, where objects have labels; its value is the run's ID.
const RunLabel = "tare.run"

// BuildLabel is the label of every image that a build makes. Its value is "MARK/STAGE".
const BuildLabel = "tare.build"

// buildPrefix begins every mark.
const buildPrefix = "tare-build/"

// BuildMark is a mark of a run. The nonce makes it different from that of every other build. A program
// that a build runs can have it among its arguments: builders keep these with their caches.
func BuildMark(run, nonce string) string { return buildPrefix + run + "/" + nonce }

// MarkedBy returns the run whose mark is in a text, such as the value of a label; empty without one.
func MarkedBy(text string) (run string) {
	_, rest, ok := strings.Cut(text, buildPrefix)
	run, _, more := strings.Cut(rest, "/")
	if !ok || !more || ValidRunID(run) != nil {
		return ""
	}
	return run
}

// IsMarked reports whether the value of a label is that of a stage of builds with this mark.
func IsMarked(value, mark string) bool { return mark != "" && strings.HasPrefix(value, mark+"/") }

// A BuildStep is one step that a builder's progress tells.
type BuildStep struct {
	Kind   StepKind
	Text   string        // as the builder writes it, such as "RUN make"
	Cached bool          // it came from the cache
	Took   time.Duration // 0 if it came from the cache
	// Rounded says that the builder tells Took in tenths of a second.
	Rounded bool
}

// A StepKind is what a step does.
type StepKind string

// The kinds of steps.
const (
	StepContext StepKind = "context"    // the builder receives the context
	StepBase    StepKind = "base"       // FROM
	StepRun     StepKind = "run"        // RUN
	StepCopy    StepKind = "copy"       // COPY and ADD, from the context
	StepStage   StepKind = "stage-copy" // COPY --from
	StepExport  StepKind = "export"     // the image is stored under its name
	StepOther   StepKind = "other"      // metadata, and what the builder does for itself
)

// KindOf is the kind of an instruction of a build file.
func KindOf(instruction string) StepKind {
	words := strings.Fields(instruction)
	if len(words) == 0 {
		return StepOther
	}
	switch strings.ToUpper(words[0]) {
	case "FROM":
		return StepBase
	case "RUN":
		return StepRun
	case "COPY", "ADD":
	default:
		return StepOther
	}
	for _, flag := range words[1:] {
		if strings.HasPrefix(flag, "--from=") {
			return StepStage
		}
		if !strings.HasPrefix(flag, "--") {
			break
		}
	}
	return StepCopy
}

// A BuiltImage is an image that a build has made, as the engine's store has it.
type BuiltImage struct {
	ID    string
	Label string // the value of BuildLabel
	Size  int64  // bytes, as the engine counts them
}
