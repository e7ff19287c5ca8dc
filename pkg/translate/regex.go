package translate

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// Bounds of a regular expression: of its text in bytes, and of its compiled
// program in instructions. RE2 matches in linear time, but that time and the
// memory grow with the program, and repetition makes large programs of short
// texts.
const (
	maxRegexLength       = 1024
	maxRegexInstructions = 4096
)

// checkRegex finds what keeps an expression from being used; "" is nothing.
func checkRegex(expr string) string {
	if len(expr) > maxRegexLength {
		return fmt.Sprintf("the regular expression is %d bytes long: use at most %d", len(expr), maxRegexLength)
	}
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return regexProblem(err)
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return regexProblem(err)
	}
	if len(prog.Inst) > maxRegexInstructions {
		return fmt.Sprintf("the regular expression is too large (%d steps, at most %d): use smaller repetition counts", len(prog.Inst), maxRegexInstructions)
	}
	// The data plane anchors it, which an open \Q would swallow.
	if _, err := regexp.Compile(`\A(?:` + expr + `)\z`); err != nil {
		return fmt.Sprintf("the regular expression %q cannot be anchored: close its \\Q with \\E", expr)
	}
	return ""
}

func regexProblem(err error) string {
	return fmt.Sprintf("the regular expression cannot be used (%s): use RE2 syntax", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
}
