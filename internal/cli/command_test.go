package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sample is a program with one command that reports what it was given.
func sample(got *[]string, dirs *[]string, form *string) Program {
	return Program{Name: "prog", Summary: "a sample", Commands: []Command{{
		Name: "serve", Args: "[DIR...]", Summary: "serves",
		Bind: func(flags *flag.FlagSet, _ Env) Run {
			*form = "text"
			List(flags, dirs, "manifests", "`DIR` to read; may be repeated")
			Choice(flags, form, "o", []string{"text", "json"}, "`FORM` of the output")
			flags.Bool("watch", false, "look for changes")
			return func(_ context.Context, args []string) error {
				*got = args
				if len(args) > 0 && args[0] == "broken" {
					return errors.New("cannot serve: broken")
				}
				if len(args) > 0 && args[0] == "reported" {
					return ErrReported
				}
				return nil
			}
		},
	}, {
		Name: "plain", Summary: "takes no argument",
		Bind: func(*flag.FlagSet, Env) Run {
			return func(context.Context, []string) error { return nil }
		},
	}}}
}

func TestProgramMain(t *testing.T) {
	f := func(args string, code int, wantOut, wantErr string, wantArgs, wantDirs []string, wantForm string) {
		t.Helper()
		var got, dirs []string
		var form string
		var stdout, stderr bytes.Buffer
		env := Env{Stdout: &stdout, Stderr: &stderr, Lookup: func(string) (string, bool) { return "", false }}
		if c := sample(&got, &dirs, &form).Main(context.Background(), env, strings.Fields(args)); c != code {
			t.Errorf("%q: exit code %d, want %d; stderr: %s", args, c, code, &stderr)
		}
		if wantOut == "" && stdout.Len() > 0 || !strings.Contains(stdout.String(), wantOut) {
			t.Errorf("%q: stdout %q, want %q in it", args, &stdout, wantOut)
		}
		if wantErr == "" && stderr.Len() > 0 || !strings.Contains(stderr.String(), wantErr) {
			t.Errorf("%q: stderr %q, want %q in it", args, &stderr, wantErr)
		}
		if diff := cmp.Diff(wantArgs, got) + cmp.Diff(wantDirs, dirs); diff != "" {
			t.Errorf("%q: arguments: %s", args, diff)
		}
		if wantForm != "" && form != wantForm {
			t.Errorf("%q: form %q, want %q", args, form, wantForm)
		}
	}
	f("serve --manifests a x -manifests=b y -o json", 0, "", "", []string{"x", "y"}, []string{"a", "b"}, "json")
	f("serve x -- -o json", 0, "", "", []string{"x", "-o", "json"}, nil, "text")
	f("serve broken", 1, "", "prog serve: cannot serve: broken\n", []string{"broken"}, nil, "")
	f("serve reported", 1, "", "", []string{"reported"}, nil, "")
	f("serve --help", 0, "--manifests DIR\n", "", nil, nil, "")
	f("help serve", 0, "Usage: prog serve [flags] [DIR...]", "", nil, nil, "")
	f("--help", 0, "serves", "", nil, nil, "")

	f("", 2, "", "no command given", nil, nil, "")
	f("serv", 2, "", `unknown command "serv"; did you mean serve?; the commands are: serve, plain`, nil, nil, "")
	f("serve --manifest a", 2, "", "unknown flag --manifest; did you mean --manifests?; see prog serve --help", nil, nil, "")
	f("serve --zzzzzzzzzzzz", 2, "", "unknown flag --zzzzzzzzzzzz; see prog serve --help", nil, nil, "")
	f("serve --manifests", 2, "", "flag --manifests needs a value: --manifests=VALUE", nil, nil, "")
	f("serve -o xml", 2, "", "use one of text, json", nil, nil, "")
	f("serve --watch=perhaps", 2, "", "watch", nil, nil, "")
	f("plain x", 2, "", `unexpected argument "x": this command takes flags only`, nil, nil, "")
}

// The help of a command without flags does not speak of flags.
func TestHelpWithoutFlags(t *testing.T) {
	var args, dirs []string
	var form string
	var stdout bytes.Buffer
	env := Env{Stdout: &stdout, Stderr: &stdout, Lookup: func(string) (string, bool) { return "", false }}
	code := sample(&args, &dirs, &form).Main(context.Background(), env, []string{"plain", "--help"})
	if want := "prog plain: takes no argument\n\nUsage: prog plain\n"; code != 0 || stdout.String() != want {
		t.Errorf("exit code %d, %q, want %q", code, &stdout, want)
	}
}
