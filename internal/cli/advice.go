package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/tare-bench/tare/internal/app"
)

// advice is what is made of a problem here.
type advice struct {
	usage bool   // it is a mistake in what was typed
	hint  string // what to do about it; empty where the problem says it
}

const seeDoctor = "'tare doctor' says which engines can be used here"

// adviceFor says what to do about a problem.
func adviceFor(p *app.Problem) advice {
	names := strings.Join(p.Names, ", ")
	switch p.Kind {
	case app.BadPlan:
		return advice{usage: true}
	case app.NoDriver:
		return advice{true, "the drivers are: " + names}
	case app.NoOption:
		return advice{true, "its options are: " + names}
	case app.NoAddress:
		return advice{true, "at=HOST, or at=HOST:PORT"}
	case app.DeclaredHere:
		return advice{true, "declare it there: tare agent serve --engine …; or mix machines without --remote: " +
			"--engine remote,name=there,at=" + names + ",engine=docker"}
	case app.Unusable:
		return advice{false, "usable here: --engine " + strings.Join(p.Names, ",") + "; 'tare doctor' says more"}
	case app.NothingPossible:
		return advice{false, seeDoctor + "; 'tare plan' shows what the cells ask for"}
	case app.NoImage, app.NoArchive, app.NoLayout, app.NoProgram, app.NoRegistry:
		return adviceForImage(p)
	case app.NoRuns, app.NoRun, app.ManyRuns, app.LastUnknown, app.NoScheme, app.NoStore, app.NotAFile, app.NotAStore:
		return adviceForStore(p)
	case app.BadRunID:
		return advice{true, "'tare list' shows the runs"}
	case app.UnknownRun:
		return advice{true, "'tare list' shows the stored runs; clean takes whole IDs"}
	case app.ForeignFiles:
		return advice{true, "it stays as it is"}
	case app.NotAsked:
		return advice{false, "'tare clean' again when it runs"}
	default:
		return adviceForRun(p)
	}
}

func adviceForRun(p *app.Problem) advice {
	switch p.Kind {
	case app.NoState:
		const other = "--state DIR chooses another place for what runs need while they run"
		return advice{false, cmp.Or(generalHint(p.Err), other)}
	case app.LeftBehind:
		return advice{false, "'tare clean' removes it"}
	case app.Interrupted:
		return advice{false, "tare resume " + p.Run}
	case app.Stopped:
		hint := fmt.Sprintf("the %d trials measured are stored; once it is mended: tare resume %s", p.Trials, p.Run)
		return advice{false, hint}
	case app.NothingMeasured:
		return advice{false, "mend that and run again; " + seeDoctor}
	case app.NothingCompared:
		return advice{false, "choose another cell to compare with: --baseline CELL"}
	case app.Finished:
		return advice{true, fmt.Sprintf("to extend it: tare resume %s --budget 5m", p.Run)}
	case app.Unfinished:
		return advice{true, "finish it first: tare resume " + p.Run}
	case app.Imported:
		return advice{true, "on that machine: tare resume " + p.Run}
	case app.NoIncomplete:
		return advice{true, "'tare list' shows the stored runs"}
	case app.OtherMetrics:
		return advice{false, "resume it with the version and on the machine that began it, or start a new run"}
	case app.NotCounted:
		return advice{false, "resume it as the user who began it"}
	default:
		return advice{}
	}
}

func adviceForStore(p *app.Problem) advice {
	switch p.Kind {
	case app.NoRuns:
		return advice{true, "'tare run' makes one"}
	case app.NoRun:
		return advice{true, "'tare list' shows the stored runs; \"last\" means the newest"}
	case app.ManyRuns:
		return advice{true, "type more of it"}
	case app.LastUnknown:
		return advice{false, "'tare list' shows the others: name one by its ID"}
	case app.NoScheme:
		return advice{true, "a store is a file, or a URL of: " + strings.Join(p.Names, ", ") +
			"; a file that is called so is written ./NAME"}
	case app.NoStore:
		return advice{true, "--store FILE names a file of stored runs; 'tare run' and 'tare import' make it"}
	case app.NotAFile:
		return advice{true, "--store FILE names a file of stored runs"}
	default: // NotAStore says it
		return advice{usage: true}
	}
}

func adviceForImage(p *app.Problem) advice {
	switch p.Kind {
	case app.NoArchive:
		return advice{true, "name a file that 'docker save' or 'tare pack -o' wrote"}
	case app.NoLayout:
		return advice{true, "name the directory of an OCI image layout"}
	case app.NoProgram:
		return advice{true, "is it spelt like that?"}
	case app.NoRegistry:
		return advice{false, "is the registry there, and may it be reached from here?"}
	}
	if len(p.Names) > 0 {
		return advice{true, fmt.Sprintf("did you mean %s?", p.Names[0])}
	}
	return advice{usage: true}
}

// isKind reports whether an error is a problem of a kind.
func isKind(err error, kind app.Kind) bool {
	var p *app.Problem
	return errors.As(err, &p) && p.Kind == kind
}
