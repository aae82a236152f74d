package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

// The variables that stand for flags of 'tare run' and 'tare plan'. A flag overrides them.
const (
	engineVariable = "TARE_ENGINE"
	budgetVariable = "TARE_BUDGET"
)

// overrides are the flags that change an experiment, and the environment where there is
// no flag. An error about what came from the environment goes through named, which puts
// the variable in the place of the flag.
func (a *invocation) overrides(o planOptions) (out experiment.Overrides, named func(error) error, err error) {
	variables := map[string]string{} // by the flag that they stand for
	stands := func(variable, flag string) (value string, ok bool) {
		value = a.env(variable)
		if value == "" || o.flags.Changed(flag) {
			return "", false
		}
		a.verbose("$%s stands for --%s", variable, flag)
		variables["--"+flag] = "$" + variable
		return value, true
	}
	if v, ok := stands(engineVariable, "engine"); ok {
		o.engines = []string{v}
	}
	if v, ok := stands(budgetVariable, "budget"); ok {
		o.overrides.Budget = v
	}
	named = func(err error) error { return nameVariables(err, variables) }
	if out, err = o.read(); err != nil {
		return out, named, named(err)
	}
	return out, named, nil
}

// nameVariables puts variables in the place of flags that nobody typed.
func nameVariables(err error, variables map[string]string) error {
	var file *yamldoc.Error
	if errors.As(err, &file) {
		for i := range file.Problems {
			flag, rest, spaced := strings.Cut(file.Problems[i].Flag, " ") // such as "--engine docker"
			if v, ok := variables[flag]; ok {
				file.Problems[i].Flag = v
				if spaced {
					file.Problems[i].Flag += " " + rest
				}
			}
		}
		return err
	}
	var usage *usageError
	if errors.As(err, &usage) {
		for flag, v := range variables {
			if rest, ok := strings.CutPrefix(usage.Error(), flag); ok {
				return &usageError{fmt.Errorf("%s%s", v, rest), usage.hint}
			}
		}
	}
	return err
}
