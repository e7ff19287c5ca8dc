package h2spec

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"
)

const (
	// answerWait is how long a case waits for a frame, tries how often one that
	// fails is repeated.
	answerWait = 2 * time.Second
	tries      = 3
	// fewestCases is below the number of cases that h2spec has: fewer mean that
	// the list was not read.
	fewestCases = 140
)

// namedCase is one case of h2spec with the name that h2spec prints.
type namedCase struct {
	name string
	*spec.TestCase
}

// allCases lists every case of h2spec.
func allCases() (cases []namedCase) {
	var visit func(g *spec.TestGroup)
	visit = func(g *spec.TestGroup) {
		n := 0
		for _, list := range [][]*spec.TestCase{g.Tests, g.StrictTests} {
			for _, c := range list {
				n++
				cases = append(cases, namedCase{fmt.Sprintf("%s/%d: %s", g.ID(), n, c.Desc), c})
			}
		}
		for _, sub := range g.Groups {
			visit(sub)
		}
	}
	visit(generic.Spec())
	visit(http2.Spec())
	visit(hpack.Spec())
	return cases
}

// verdict is what a server did in a case.
type verdict int

const (
	passed verdict = iota
	skipped
	failed
)

func (v verdict) String() string { return [...]string{"passed", "skipped", "FAILED"}[v] }

// result is a verdict and, unless it is passed, why.
type result struct {
	verdict verdict
	reason  string
}

// run puts the case to a server, on a connection of its own each time, until it
// passes or the tries are used up.
func (c namedCase) run(server *config.Config) (r result) {
	for range tries {
		if r = c.once(server); r.verdict != failed {
			break
		}
	}
	return r
}

func (c namedCase) once(server *config.Config) result {
	conn, err := spec.Dial(server)
	if err != nil {
		return result{failed, "cannot connect: " + err.Error()}
	}
	defer conn.Close()
	switch err = c.Run(server, conn); {
	case err == nil:
		return result{}
	case errors.Is(err, spec.ErrSkipped):
		return result{skipped, "not applicable"}
	}
	var test *spec.TestError
	if errors.As(err, &test) {
		return result{failed, "want " + strings.Join(test.Expected, " or ") + "; got " + test.Actual}
	}
	return result{failed, err.Error()}
}
