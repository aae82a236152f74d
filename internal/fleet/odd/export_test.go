package odd

// For tests of the pieces.
var (
	Spread  = spread
	Largest = largest
	Kinds   = kinds
)

// SumOfRanks is sumOfRanks.
var SumOfRanks = sumOfRanks
