package cli

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

func (p Program) printHelp(w io.Writer) {
	_, _ = fmt.Fprintf(w, "%s: %s\n\nUsage: %s COMMAND [flags]\n\nCommands:\n", p.Name, p.Summary, p.Name)
	for _, c := range p.Commands {
		_, _ = fmt.Fprintf(w, "  %-12s %s\n", c.Name, c.Summary)
	}
	_, _ = fmt.Fprintf(w, "\nSee %s COMMAND --help for the flags of a command.\n", p.Name)
}

func (c Command) printHelp(w io.Writer, name string, flags *flag.FlagSet) {
	usage, some := name, hasFlags(flags)
	if some {
		usage += " [flags]"
	}
	_, _ = fmt.Fprintf(w, "%s: %s\n\nUsage: %s\n", name, c.Summary, strings.TrimSpace(usage+" "+c.Args))
	if c.Help != "" {
		_, _ = fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(c.Help))
	}
	if !some {
		return
	}
	_, _ = fmt.Fprint(w, "\nFlags:\n")
	flags.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		head := "  " + dashed(f.Name)
		if value != "" {
			head += " " + value
		}
		if f.DefValue != "" && f.DefValue != "false" && !strings.Contains(usage, "(default") {
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		_, _ = fmt.Fprintf(w, "%s\n      %s\n", head, strings.ReplaceAll(usage, "\n", "\n      "))
	})
}

func hasFlags(flags *flag.FlagSet) (some bool) {
	flags.VisitAll(func(*flag.Flag) { some = true })
	return some
}
