package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// The exit codes of a program.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// Env is the process as a command sees it.
type Env struct {
	Stdout, Stderr io.Writer
	// Lookup finds an environment variable.
	Lookup func(name string) (string, bool)
}

// Command is one thing that a program does.
type Command struct {
	// Name is what selects it, one word; of a program with a single command,
	// the program's name.
	Name string
	// Args shows the arguments that are no flags, such as "FILE|DIR..."; empty:
	// it takes none.
	Args    string
	Summary string // one line
	Help    string // further paragraphs; may be empty
	// Bind declares the command's flags and returns what runs it after they
	// have been parsed.
	Bind func(flags *flag.FlagSet, env Env) Run
}

// Run does a command's work until it is done or ctx ends.
type Run func(ctx context.Context, args []string) error

// ErrReported fails a command whose output has already said why.
var ErrReported = errors.New("failed, as reported")

// UsageError is a mistake on the command line.
type UsageError string

func (e UsageError) Error() string { return string(e) }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error {
	return UsageError(fmt.Sprintf(format, args...))
}

// Program is a program made of several commands.
type Program struct {
	Name     string
	Summary  string
	Commands []Command
}

// Main runs the command that args name and returns the exit code.
func (p Program) Main(ctx context.Context, env Env, args []string) int {
	if len(args) == 0 {
		_, _ = fmt.Fprintf(env.Stderr, "%s: no command given\n\n", p.Name)
		p.printHelp(env.Stderr)
		return exitUsage
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		if len(args) > 1 {
			return p.Main(ctx, env, []string{args[1], "--help"})
		}
		p.printHelp(env.Stdout)
		return exitDone
	}
	names := make([]string, 0, len(p.Commands))
	for _, c := range p.Commands {
		if c.Name == args[0] {
			return c.main(ctx, env, p.Name+" "+c.Name, args[1:])
		}
		names = append(names, c.Name)
	}
	_, _ = fmt.Fprintf(env.Stderr, "%s: unknown command %q%s; the commands are: %s\n",
		p.Name, args[0], suggestion(args[0], names, ""), strings.Join(names, ", "))
	return exitUsage
}

// Main runs a program that has only this command and returns the exit code.
func (c Command) Main(ctx context.Context, env Env, args []string) int {
	return c.main(ctx, env, c.Name, args)
}

func (c Command) main(ctx context.Context, env Env, name string, args []string) int {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	run := c.Bind(flags, env)
	rest, err := parseMixed(flags, args)
	if err == nil && c.Args == "" && len(rest) > 0 {
		err = Usagef("unexpected argument %q: this command takes flags only", rest[0])
	}
	if errors.Is(err, flag.ErrHelp) {
		c.printHelp(env.Stdout, name, flags)
		return exitDone
	}
	if err == nil {
		err = run(ctx, rest)
	}
	var usage UsageError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage):
		_, _ = fmt.Fprintf(env.Stderr, "%s: %s; see %s --help\n", name, usage, name)
		return exitUsage
	case errors.Is(err, ErrReported):
		return exitFailed
	}
	_, _ = fmt.Fprintf(env.Stderr, "%s: %v\n", name, err)
	return exitFailed
}

// parseMixed parses flags that may stand between arguments, and returns the
// arguments. What follows "--" is no flag.
func parseMixed(flags *flag.FlagSet, args []string) ([]string, error) {
	var rest []string
	for {
		if err := flags.Parse(args); err != nil {
			return nil, explain(flags, err)
		}
		parsed := len(args) - flags.NArg()
		if parsed > 0 && args[parsed-1] == "--" {
			return append(rest, flags.Args()...), nil
		}
		if flags.NArg() == 0 {
			return rest, nil
		}
		rest = append(rest, flags.Arg(0))
		args = flags.Args()[1:]
	}
}

// explain turns the flag package's error into a UsageError that names a remedy.
func explain(flags *flag.FlagSet, err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	message := err.Error()
	if name, ok := strings.CutPrefix(message, "flag provided but not defined: -"); ok {
		var names []string
		flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
		return Usagef("unknown flag %s%s", dashed(name), suggestion(name, names, "--"))
	}
	if name, ok := strings.CutPrefix(message, "flag needs an argument: -"); ok {
		return Usagef("flag %s needs a value: %s=VALUE", dashed(name), dashed(name))
	}
	return UsageError(message)
}

// dashed writes a flag as people type it: -o, --manifests.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
