package party

import "testing"

// What is asked for can have been printed before or after it is asked for.
func TestLinesThatAreThereAlready(t *testing.T) {
	var o output
	o.open(100)
	_, _ = o.Write([]byte("one\n"))
	<-o.after(1)
	second := o.after(2)
	_, _ = o.Write([]byte("two\n"))
	<-second
	<-o.after(2)
}
