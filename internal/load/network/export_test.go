package network

// AtVersion says hello as a client of another version would.
func AtVersion(version int, token string) string { return hello{version, token, nil}.String() }
