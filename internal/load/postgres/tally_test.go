package postgres

import "testing"

// A transaction that the server refuses in the warm-up has not failed, but the server had to do it.
func TestRefuse(t *testing.T) {
	p := &plan{script: &script{}}
	all, one := newTally(p), newTally(p)
	one.refuse(&ServerError{Code: CodeDeadlock}, false)
	one.refuse(&ServerError{Code: CodeDeadlock}, true)
	all.refuse(&ServerError{Code: CodeSerialization}, true)
	all.add(&one)
	if all.refused != 3 || all.failures() != 2 || all.failed[deadlock] != 1 {
		t.Errorf("%d refused, of which %v failed; want 3, one of each kind failed", all.refused, all.failed)
	}
}
