package cli

import (
	"flag"
	"strings"
)

// List declares a flag that may be given several times; each value is appended.
func List(flags *flag.FlagSet, target *[]string, name, usage string) {
	flags.Func(name, usage, func(s string) error {
		*target = append(*target, s)
		return nil
	})
}

// Choice declares a flag that takes one of a few words; target holds the
// default.
func Choice(flags *flag.FlagSet, target *string, name string, words []string, usage string) {
	flags.Var(&choice{target, words}, name, usage+"; one of "+strings.Join(words, ", "))
}

type choice struct {
	target *string
	words  []string
}

func (c *choice) String() string {
	if c.target == nil {
		return ""
	}
	return *c.target
}

func (c *choice) Set(s string) error {
	for _, w := range c.words {
		if s == w {
			*c.target = s
			return nil
		}
	}
	return UsageError("use one of " + strings.Join(c.words, ", "))
}
