package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/tare-bench/tare/internal/app"
)

// advice is what the command line says about a problem.
type advice struct {
	usage bool   // it is a mistake in what was typed
	hint  string // what to do about it; empty where the problem says it
}

const doctorHint = "'tare doctor' shows which engines work here"

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
		return advice{true, "add the option at=HOST"}
	case app.BadHost:
		return advice{usage: true}
	case app.DeclaredHere:
		return advice{true, "name one of the engines there; or mix machines without --remote: " +
			"--engine remote,name=there,at=" + names + ",engine=docker"}
	case app.Unusable:
		return advice{false, "usable here: --engine " + strings.Join(p.Names, ",") + "; 'tare doctor' shows more"}
	case app.NothingPossible:
		return advice{false, doctorHint + "; 'tare plan' shows what the cells need"}
	case app.NoImage, app.NoArchive, app.NoLayout, app.NoProgram, app.NoRegistry:
		return adviceForImage(p)
	case app.NoRuns, app.NoRun, app.ManyRuns, app.LastUnknown, app.NoScheme, app.NoStore, app.NotAFile, app.NotAStore:
		return adviceForStore(p)
	case app.NoFleets:
		return advice{false, "'tare fleet run' measures all nodes of a cluster"}
	case app.NoFleet:
		return advice{true, "fleets: " + names}
	case app.FleetStopped:
		return advice{false, "to go on, with the same --context: tare fleet gather " + p.Run}
	case app.FleetFailed:
		return advice{false, "'tare fleet show' has the reason of every node"}
	case app.OtherCluster:
		return advice{true, "give the --context and --kubeconfig of 'tare fleet run'; 'tare fleet show' shows what is stored"}
	case app.BadRunID:
		return advice{true, "'tare list' shows the runs"}
	case app.UnknownRun:
		return advice{true, "'tare list' shows the stored runs; for others, 'tare clean' needs whole IDs"}
	case app.ForeignFiles:
		return advice{true, "tare leaves it as it is; remove it yourself if you do not need it"}
	case app.NotAsked:
		return advice{false, "start the engine, then repeat 'tare clean'"}
	default:
		return adviceForRun(p)
	}
}

func adviceForRun(p *app.Problem) advice {
	switch p.Kind {
	case app.NoState:
		const other = "choose another directory for temporary run data with --state DIR"
		if errors.Is(p.Err, syscall.ENOSPC) {
			return advice{false, "free some space there, or " + other}
		}
		return advice{false, cmp.Or(generalHint(p.Err), other)}
	case app.LeftBehind:
		return advice{false, "'tare clean' removes it"}
	case app.LeftBehindThere:
		return advice{false, "on " + strings.Join(p.Names, "") + ": tare clean"}
	case app.HostLost:
		return advice{false, "what it has measured is kept there; once it can be reached: tare resume " + p.Run}
	case app.HostStopped:
		const then = ": what was measured is stored; then: tare resume "
		host := strings.Join(p.Names, "")
		if errors.Is(p.Err, syscall.ENOSPC) {
			return advice{false, "free some space on " + host + then + p.Run}
		}
		return advice{false, "solve the problem on " + host + then + p.Run}
	case app.NotAlone:
		return advice{true, "measure once more with --on"}
	case app.NoPartner:
		return advice{false, "'tare compare' compares what there is"}
	case app.Interrupted:
		return advice{false, "tare resume " + p.Run}
	case app.Stopped:
		hint := fmt.Sprintf("the %d measured trials are stored; solve the problem, then: tare resume %s", p.Trials, p.Run)
		return advice{false, hint}
	case app.NothingMeasured:
		return advice{false, "solve that problem and run again; " + doctorHint}
	case app.NothingCompared:
		return advice{false, "choose another baseline: --baseline CELL"}
	case app.Finished:
		return advice{true, fmt.Sprintf("to extend it: tare resume %s --budget 5m", p.Run)}
	case app.Unfinished:
		return advice{true, "finish it first: tare resume " + p.Run}
	case app.Imported:
		return advice{true, "on that machine: tare resume " + p.Run}
	case app.NoIncomplete:
		return advice{true, "'tare list' shows the stored runs"}
	case app.OtherMetrics:
		return advice{false, "resume it on the machine and with the version of tare that began it, or start a new run"}
	case app.NotCounted, app.NotTraced:
		return advice{false, "resume it as the user who began it"}
	case app.UnderWay:
		return advice{false, "wait until it has ended, or interrupt it"}
	case app.BadName:
		return advice{true, "a name begins with a letter, and has at most 64 letters, digits, dots, underscores and hyphens"}
	case app.NameTaken:
		return advice{true, "choose another, or take it from that run: tare note " + p.Run + ` --name ""`}
	case app.ManyRemarks:
		return advice{true, "'tare show " + p.Run + "' shows them"}
	case app.BadRemark:
		return advice{usage: true}
	case app.NoTimeline:
		if len(p.Names) > 0 {
			return advice{true, "cells with a timeline: " + strings.Join(p.Names, ", ")}
		}
		return advice{true, "'tare run lifecycle --timeline' makes a run with timelines"}
	case app.NoTimelineOf:
		return advice{true, "it has traced: " + strings.Join(p.Names, ", ")}
	default:
		return advice{}
	}
}

func adviceForStore(p *app.Problem) advice {
	switch p.Kind {
	case app.NoRuns:
		return advice{true, "'tare run' makes one"}
	case app.NoRun:
		hint := "'tare list' shows the stored runs; \"last\" means the newest"
		if len(p.Names) > 0 {
			hint = fmt.Sprintf("did you mean %s? %s", p.Names[0], hint)
		}
		return advice{true, hint}
	case app.ManyRuns:
		return advice{true, "name one of them"}
	case app.LastUnknown:
		return advice{false, "name a run by its ID; 'tare list' shows the others"}
	case app.NoScheme:
		return advice{true, "a store is a file, or a URL that begins with: " + strings.Join(p.Names, ", ") +
			"; for a file of that name write ./NAME"}
	case app.NoStore:
		return advice{true, "--store FILE names the file that keeps all runs; 'tare run' and 'tare import' create it"}
	case app.NotAFile:
		return advice{true, "--store FILE names the file that keeps all runs"}
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
		return advice{true, "check how it is spelt"}
	case app.NoRegistry:
		return advice{false, "check the name of the registry, and that this machine can reach it"}
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
