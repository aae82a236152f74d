package native

// ParseStat gives tests what is read of /proc/PID/stat.
func ParseStat(text []byte) (group int, started uint64, zombie, ok bool) {
	s, ok := parseStat(text)
	return s.group, s.started, s.state == 'Z', ok
}

// RunOf gives tests what is read of /proc/PID/environ.
func RunOf(env []byte) (string, bool) { return runOf(env) }
