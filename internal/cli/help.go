package cli

import (
	"slices"

	"github.com/spf13/cobra"
)

// helpCommand is like cobra's, but refuses unknown commands.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return &usageError{err, "tare --help lists the commands"}
			}
			if err := unknownCommand(about, rest); err != nil {
				return err
			}
			about.InitDefaultHelpFlag() // as Execute does; help would not list it otherwise
			return about.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var out []cobra.Completion
			if about, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, c := range slices.DeleteFunc(about.Commands(), func(c *cobra.Command) bool {
					return !c.IsAvailableCommand()
				}) {
					out = append(out, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// addCompletion adds cobra's command that writes scripts for shells, and lets
// it refuse shells that it does not know.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	i := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == "completion" })
	completion := root.Commands()[i]
	completion.Short = "Print the script that completes tare's words in a shell"
	completion.Long = `Completion prints a script for a shell. With it, pressing Tab completes commands,
flags, engines, experiments, metrics and stored runs. 'make install' puts the
scripts where bash, zsh and fish find them.`
	completion.Args = unknownCommand
	completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	for _, shell := range completion.Commands() {
		shell.Args = noArgs
		shell.Short = "Print the completion script of " + shell.Name()
	}
}
