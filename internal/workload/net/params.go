package net

// allowEmpty returns a Valid function that also accepts an empty value.
func allowEmpty(rule func(string) error) func(string) error {
	return func(s string) error {
		if s == "" {
			return nil
		}
		return rule(s)
	}
}

// selectParams returns the named options.
func selectParams(params map[string]string, names ...string) map[string]string {
	out := make(map[string]string, len(names))
	for _, name := range names {
		if v := params[name]; v != "" {
			out[name] = v
		}
	}
	return out
}
