package supervise

import "testing"

// What is asked for can have been printed before or after it is asked for.
func TestLinesThatAreThereAlready(t *testing.T) {
	var o output
	o.open(100)
	_, _ = o.Write([]byte("one\n"))
	<-o.awaitLines(1)
	second := o.awaitLines(2)
	_, _ = o.Write([]byte("two\n"))
	<-second
	<-o.awaitLines(2)
}

func TestWhole(t *testing.T) {
	for text, want := range map[string]string{"": "", "one": "", "one\n": "one\n", "one\ntw": "one\n", "\n\n": "\n\n"} {
		if got := string(wholeLines([]byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
