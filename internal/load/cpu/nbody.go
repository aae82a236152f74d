package cpu

import "math"

// Physics: simulates the Sun and the giant planets for 1000 steps of a hundredth of a
// day, as in the Computer Language Benchmarks Game. The answer is the final energy, in
// billionths, without its sign.
func preparePhysics() func() uint64 {
	const steps = 1000
	start := planets()
	return func() uint64 {
		s := start
		for range steps {
			s.advance(0.01)
		}
		return uint64(math.Round(-1e9 * s.energy()))
	}
}

type body struct{ x, y, z, vx, vy, vz, mass float64 }

// A system of bodies, in astronomical units, years and 4π² solar masses.
type system [5]body

// planets are the Sun, Jupiter, Saturn, Uranus and Neptune, with no momentum.
func planets() system {
	const sun, year = 4 * math.Pi * math.Pi, 365.24
	s := system{
		{mass: 1},
		{
			4.84143144246472090, -1.16032004402742839, -0.103622044471123109, 0.00166007664274403694, 0.00769901118419740425,
			-0.0000690460016972063023, 0.000954791938424326609,
		},
		{
			8.34336671824457987, 4.12479856412430479, -0.403523417114321381, -0.00276742510726411048, 0.00499852801234917238,
			0.0000230417297573763929, 0.000285885980666130812,
		},
		{
			12.8943695621391310, -15.1111514016986312, -0.223307578892655734, 0.00296460137564761618, 0.00237847173959480950,
			-0.0000296589568540237556, 0.0000436624404335156298,
		},
		{
			15.3796971148509165, -25.9193146099879641, 0.179258772950371181, 0.00268067772490389322, 0.00162824170038242295,
			-0.0000951592254519715870, 0.0000515138902046611451,
		},
	}
	for i := range s {
		b := &s[i]
		b.mass *= sun
		b.vx, b.vy, b.vz = b.vx*year, b.vy*year, b.vz*year
		s[0].vx -= b.vx * b.mass / sun
		s[0].vy -= b.vy * b.mass / sun
		s[0].vz -= b.vz * b.mass / sun
	}
	return s
}

func (s *system) advance(dt float64) {
	for i := range s {
		a := &s[i]
		for j := i + 1; j < len(s); j++ {
			b := &s[j]
			dx, dy, dz := a.x-b.x, a.y-b.y, a.z-b.z
			square := dx*dx + dy*dy + dz*dz
			pull := dt / (square * math.Sqrt(square))
			a.vx -= dx * b.mass * pull
			a.vy -= dy * b.mass * pull
			a.vz -= dz * b.mass * pull
			b.vx += dx * a.mass * pull
			b.vy += dy * a.mass * pull
			b.vz += dz * a.mass * pull
		}
	}
	for i := range s {
		b := &s[i]
		b.x += dt * b.vx
		b.y += dt * b.vy
		b.z += dt * b.vz
	}
}

func (s *system) energy() float64 {
	e := 0.0
	for i, a := range s {
		e += a.mass * (a.vx*a.vx + a.vy*a.vy + a.vz*a.vz) / 2
		for _, b := range s[i+1:] {
			dx, dy, dz := a.x-b.x, a.y-b.y, a.z-b.z
			e -= a.mass * b.mass / math.Sqrt(dx*dx+dy*dy+dz*dz)
		}
	}
	return e
}
