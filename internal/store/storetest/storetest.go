// Package storetest has the conformance suite that every bench.Store passes, and a store in memory
// for tests of code that uses a store.
package storetest

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tare-bench/tare/internal/bench"
)

// Run checks every sentence of the contract of bench.Store. It calls open for
// an empty store of each test's own, and closes it.
func Run(t *testing.T, open func(t *testing.T) bench.Store) {
	for _, tt := range []struct {
		name string
		test func(*testing.T, *suite)
	}{
		{"WhatWasAppendedIsRead", testRead},
		{"UnfinishedRunIsAPrefix", testPrefix},
		{"RunIsReadWhileItIsWritten", testReadWhileWriting},
		{"CreateTwice", testCreateTwice},
		{"CreateRefusesInvalidHeaders", testCreateInvalid},
		{"OpenMissing", testOpenMissing},
		{"ResumeGoesOn", testResume},
		{"ResumeMissing", testResumeMissing},
		{"ResumeFinished", testResumeFinished},
		{"ResumeAtTheWrongTrial", testResumeWrong},
		{"ExtendGoesOn", testExtend},
		{"ExtendInterrupted", testExtendInterrupted},
		{"ExtendRefusesTheImpossible", testExtendWrong},
		{"ExtendedRunIsImported", testExtendImported},
		{"FinishedNeverChanges", testFinished},
		{"SeqGrowsByOne", testSeq},
		{"InvalidSamplesAreRefused", testInvalidSamples},
		{"TwoWritersOfOneRun", testTwoWriters},
		{"ValuesKeepEveryBit", testBits},
		{"EveryOutcome", testOutcomes},
		{"HostileStrings", testStrings},
		{"SeriesKeepEveryBit", testSeries},
		{"TraceIsWhole", testTrace},
		{"SamplesAreNotRetained", testRetained},
		{"LargeRun", testLarge},
		{"RunsNewestFirst", testRuns},
		{"RunsStopsWhenAsked", testRunsStop},
		{"FindNewestFirst", testFind},
		{"FindAmongNoRuns", testFindNone},
		{"StoreIsUsedInsideRuns", testNested},
		{"ConcurrentRuns", testConcurrent},
		{"EndedContext", testContext},
		{"ImportedRunIsTheSame", testImport},
		{"NamesAreUnique", testNames},
		{"RemarksAreKeptInOrder", testRemarks},
		{"RemovedIsGone", testRemove},
		{"RemovedUnderItsWriter", testRemoveUnderWriter},
		{"RemovedWhileListed", testRemoveWhileListed},
		{"ImportKeepsWhatWasWritten", testImportWritten},
		{"FleetsAreKept", testFleets},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &suite{Store: open(t), t: t, ctx: t.Context()}
			defer s.close(s)
			tt.test(t, s)
		})
	}
}

// A suite is a store under test, with what every test needs.
type suite struct {
	bench.Store
	t   *testing.T
	ctx context.Context
}

func (s *suite) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *suite) close(c io.Closer) {
	s.t.Helper()
	if err := c.Close(); err != nil {
		s.t.Errorf("Close: %v", err)
	}
}

func (s *suite) wantIs(what string, err, want error) {
	s.t.Helper()
	if !errors.Is(err, want) {
		s.t.Errorf("%s: error %v, want one that is %v", what, err, want)
	}
}

// create begins a run and appends samples; the writer is closed by the test's end.
func (s *suite) create(h bench.Header, samples ...bench.Sample) bench.RunWriter {
	s.t.Helper()
	w, err := s.Create(s.ctx, h)
	s.must(err)
	for _, sample := range samples {
		s.must(w.Append(s.ctx, sample))
	}
	return w
}

// wantRun checks the stored run.
func (s *suite) wantRun(want *bench.Run) {
	s.t.Helper()
	got, err := s.Open(s.ctx, want.Header.ID)
	s.must(err)
	if d := cmp.Diff(want, got, cmpopts.EquateNaNs(), ignoreImported()); d != "" {
		s.t.Errorf("run %s (-want +got):\n%.4000s", want.Header.ID, d)
	}
}

// ignoreImported lets runs be compared that differ only in that one was imported.
func ignoreImported() cmp.Option { return cmpopts.IgnoreFields(bench.Header{}, "Imported") }
