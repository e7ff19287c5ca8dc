// Package cli is the command line of the programs in cmd: sub-commands, flags,
// help, and errors that say what to do.
//
// A program is a list of Commands. Each declares its flags on a flag.FlagSet
// and gets back the arguments that are no flags; flags and arguments may be
// mixed ("lint a.yaml -o json"). A mistake on the command line is answered with
// the offending word, the nearest known one and the way to the help, and exit
// code 2; a failed run with one line and exit code 1. Help goes to standard
// output and is no failure.
//
// Nothing here reads the process's arguments, environment or streams by itself:
// all of it is passed in, so that tests run programs in their own process.
package cli
