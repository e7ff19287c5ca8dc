package translate

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// Bounds of a regular expression: of its text in bytes, and of its program in
// instructions. RE2 matches in linear time, but that time and the memory grow with
// the program, and repetition makes large programs of short texts. A route may
// have thousands of expressions, so that those of one route are bounded together.
const (
	maxRegexLength            = 1024
	maxRegexInstructions      = 4096
	maxRouteRegexInstructions = 16384
)

// regexVerdict is what was found about an expression.
type regexVerdict struct {
	problem      string // what keeps it from being used; "": nothing
	instructions int    // of its program, about; of one that cannot be used, what judging it cost
}

var regexVerdicts = newVerdicts[string, regexVerdict](16384)

// regex judges an expression of the route.
func (b *ruleBuilder) regex(expr string) (problem string) {
	if b.route.instructions >= maxRouteRegexInstructions {
		return fmt.Sprintf("the regular expressions of the route are too large together (at most %d steps): split the route, or use exact values", maxRouteRegexInstructions)
	}
	v := judgeRegex(expr)
	b.route.instructions += v.instructions
	return v.problem
}

func judgeRegex(expr string) regexVerdict {
	if len(expr) > maxRegexLength {
		return regexVerdict{fmt.Sprintf("the regular expression is %d bytes long: use at most %d", len(expr), maxRegexLength), 0}
	}
	return regexVerdicts.of(strings.Clone(expr), func() regexVerdict {
		problem, instructions := checkRegex(expr)
		return regexVerdict{problem, max(instructions, len(expr)/8)}
	})
}

// checkRegex finds what keeps an expression from being used; "" is nothing.
func checkRegex(expr string) (problem string, instructions int) {
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return regexProblem(err), 0
	}
	instructions = programSize(parsed)
	if instructions > maxRegexInstructions {
		return fmt.Sprintf("the regular expression is too large (about %d steps, at most %d): use smaller repetition counts", instructions, maxRegexInstructions), 0
	}
	// The data plane anchors it, which an open \Q would swallow.
	if _, err := regexp.Compile(`\A(?:` + expr + `)\z`); err != nil {
		return fmt.Sprintf("the regular expression %q cannot be anchored: close its \\Q with \\E", expr), instructions
	}
	return "", instructions
}

// programSize is about how many instructions an expression compiles to, told
// without making them: repetition may make millions.
func programSize(re *syntax.Regexp) int {
	size := 0
	for _, sub := range re.Sub {
		size += programSize(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCapture, syntax.OpAlternate:
		return size + len(re.Sub) + 1
	case syntax.OpRepeat:
		if re.Max < 0 {
			return size*max(re.Min, 1) + 1
		}
		return size*re.Max + re.Max - re.Min
	}
	return size + 1
}

func regexProblem(err error) string {
	return fmt.Sprintf("the regular expression cannot be used (%s): use RE2 syntax", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
}
