package agent

// The parsers of kernel files, for tests of captured and broken ones.
var (
	ParseMounts     = parseMounts
	ParseInterfaces = parseInterfaces
	ParseStatus     = (*Facts).parseStatus
)
