package cpu

import "math"

// Integer: counts coprime pairs with Euclid's algorithm (division, branches), and runs
// splitmix64 (multiplication, shifts).
func prepareInteger() func() uint64 {
	const most, draws = 64, 16384
	return func() uint64 {
		total := uint64(0)
		for a := uint64(1); a <= most; a++ {
			for b := uint64(1); b <= a; b++ {
				if gcd(a, b) == 1 {
					total++
				}
			}
		}
		var s sequence
		for range draws {
			total += s.next()
		}
		return total
	}
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Float: integrates a quarter of the unit disk and 1/(1+x²) with the midpoint rule;
// eight times their sum is 4π. The answer is in millionths.
func prepareFloat() func() uint64 {
	const steps = 8192
	return func() uint64 {
		disk, bell := 0.0, 0.0
		for i := range steps {
			x := (float64(i) + 0.5) / steps
			disk += math.Sqrt(1 - x*x)
			bell += 1 / (1 + x*x)
		}
		return uint64(math.Round(8e6 * (disk + bell) / steps))
	}
}

// Prime: counts the primes below 131,072 with the sieve of Eratosthenes over the odd
// numbers.
func prepareSieve() func() uint64 {
	const size = 1 << 16
	composite := make([]bool, size) // of 2i+1
	return func() uint64 {
		clear(composite)
		for i := 1; 2*i*(i+1) < size; i++ {
			if !composite[i] {
				for j := 2 * i * (i + 1); j < size; j += 2*i + 1 {
					composite[j] = true
				}
			}
		}
		primes := uint64(1) // the prime 2; 1 is not a prime
		for _, c := range composite[1:] {
			if !c {
				primes++
			}
		}
		return primes
	}
}
