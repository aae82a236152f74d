// Package archtest holds the code to the architecture: which package may
// import which, one comment for each package, no init functions. It is all
// tests.
package archtest
