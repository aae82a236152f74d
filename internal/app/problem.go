package app

import "iter"

// A Problem is an error about which a user can do something. What that is, its Kind
// says: the words are those of who shows it.
type Problem struct {
	Kind   Kind
	Err    error    // what is wrong, in a sentence that needs no advice
	Run    string   // the ID of the run that it is about; empty where it is about none
	Trials int      // how many trials of that run are stored
	Names  []string // what there is, or what was meant, as the Kind says
}

func (p *Problem) Error() string { return p.Err.Error() }
func (p *Problem) Unwrap() error { return p.Err }

// A Kind is what a Problem is about, as a word for programs.
type Kind string

// Of plans and engines.
const (
	BadPlan         Kind = "bad-plan"         // the experiment cannot be planned as it is asked for
	NoDriver        Kind = "no-driver"        // Names are the drivers
	NoOption        Kind = "no-option"        // of a driver; Names are those that it has
	NoAddress       Kind = "no-address"       // of an engine on another machine
	BadHost         Kind = "bad-host"         // no machine is called so
	DeclaredHere    Kind = "declared-here"    // an engine of this machine among those of Names[0], an address
	Unusable        Kind = "unusable"         // an engine cannot be used here; Names can
	NothingPossible Kind = "nothing-possible" // no cell can be run here
	NoImage         Kind = "no-image"         // Names[0] may have been meant
	NoArchive       Kind = "no-archive"       // an image's file is not there
	NoLayout        Kind = "no-layout"        // an image's directory is not there
	NoProgram       Kind = "no-program"       // that could be packed
	NoRegistry      Kind = "no-registry"      // it does not answer
)

// Of runs.
const (
	NoState         Kind = "no-state"         // the run's directory cannot be made
	LeftBehind      Kind = "left-behind"      // it could not clean up after itself
	LeftBehindThere Kind = "left-there"       // the same on the host Names[0]
	HostLost        Kind = "host-lost"        // one of several; what it has measured is fetched later
	HostStopped     Kind = "host-stopped"     // one of several, Names[0], by an error; what it has measured is stored
	NotAlone        Kind = "not-alone"        // the run is one of several, so that it cannot be extended
	NoPartner       Kind = "no-partner"       // the runs of the other hosts are finished, or cannot go on
	Interrupted     Kind = "interrupted"      // by the user
	Stopped         Kind = "stopped"          // by something that went wrong
	NothingMeasured Kind = "nothing-measured" // no trial succeeded
	NothingCompared Kind = "nothing-compared" // the baseline cannot run what it asks for
	Finished        Kind = "finished"         // so that it cannot be resumed
	Unfinished      Kind = "unfinished"       // so that it cannot be extended
	Imported        Kind = "imported"         // so that it can be resumed only where it began
	NoIncomplete    Kind = "no-incomplete"    // to be resumed
	OtherMetrics    Kind = "other-metrics"    // than this version measures on this machine
	NotCounted      Kind = "not-counted"      // system calls, as the run did before
	NotTraced       Kind = "not-traced"       // timelines, as the run did before
	UnderWay        Kind = "under-way"        // so that it cannot be removed or resumed
	BadName         Kind = "bad-name"         // no run can be called so
	NameTaken       Kind = "name-taken"       // by the run
	ManyRemarks     Kind = "many-remarks"     // on the run: there is no room for more
	BadRemark       Kind = "bad-remark"       // nothing can be noted so
	NoTimeline      Kind = "no-timeline"      // of the run, or of a cell; Names are the cells that have one
	NoTimelineOf    Kind = "no-timeline-of"   // of that metric; Names are those that the run has traced
)

// Of fleets.
const (
	NoFleets     Kind = "no-fleets"     // are stored
	NoFleet      Kind = "no-fleet"      // is stored that is called so, or several are; Names are IDs
	FleetStopped Kind = "fleet-stopped" // by the user or by something that went wrong; it can be gone on with
	FleetFailed  Kind = "fleet-failed"  // no node measured anything
	OtherCluster Kind = "other-cluster" // than the one where the fleet is
)

// Of stores and of what is left.
const (
	NoRuns       Kind = "no-runs"       // are stored
	NoRun        Kind = "no-run"        // is stored that is called so
	ManyRuns     Kind = "many-runs"     // are called so
	LastUnknown  Kind = "last-unknown"  // the newest run cannot be read
	NoScheme     Kind = "no-scheme"     // no store is called so; Names are the schemes
	NoStore      Kind = "no-store"      // there is none, and none is to be made
	NotAFile     Kind = "not-a-file"    // and a store has to be one
	NotAStore    Kind = "not-a-store"   // the file is something else
	BadRunID     Kind = "bad-run-id"    // no run can be called so
	UnknownRun   Kind = "unknown-run"   // it is not stored and left nothing
	ForeignFiles Kind = "foreign-files" // what is called like a run is none of tare's
	NotAsked     Kind = "not-asked"     // an engine could not be asked what is left with it
)

// Kinds lists every Kind.
func Kinds() []Kind {
	return []Kind{
		BadPlan, NoDriver, NoOption, NoAddress, BadHost, DeclaredHere, Unusable, NothingPossible,
		NoImage, NoArchive, NoLayout, NoProgram, NoRegistry,
		NoState, LeftBehind, LeftBehindThere, HostLost, HostStopped, NotAlone, NoPartner,
		Interrupted, Stopped, NothingMeasured, NothingCompared,
		Finished, Unfinished, Imported, NoIncomplete, OtherMetrics, NotCounted, NotTraced,
		UnderWay, BadName, NameTaken, ManyRemarks, BadRemark, NoTimeline, NoTimelineOf,
		NoFleets, NoFleet, FleetStopped, FleetFailed, OtherCluster,
		NoRuns, NoRun, ManyRuns, LastUnknown, NoScheme, NoStore, NotAFile, NotAStore,
		BadRunID, UnknownRun, ForeignFiles, NotAsked,
	}
}

// Problems yields the problems in an error, from the outside to the inside and in
// order: an error that joins others may have several.
func Problems(err error) iter.Seq[*Problem] {
	return func(yield func(*Problem) bool) { eachProblem(err, yield) }
}

// eachProblem calls f on each problem until that returns false, and then does so too.
func eachProblem(err error, f func(*Problem) bool) bool {
	if p, ok := err.(*Problem); ok && !f(p) {
		return false
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return eachProblem(e.Unwrap(), f)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if !eachProblem(one, f) {
				return false
			}
		}
	}
	return true
}
