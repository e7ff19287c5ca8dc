package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
)

// status lists the components. Its error says what does not run, with the last
// lines of the log.
func status(_ context.Context, l layout, out io.Writer) error {
	other, err := owner()
	if err != nil {
		return err
	}
	if other == "" {
		return errors.New("there is no cluster: start it by `make cluster-up`")
	}
	if !l.owns(other) {
		return fmt.Errorf("the cluster on this machine is that of %s", other)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "COMPONENT\tPROCESS\tSTATE\tLOG")
	var dead error
	for _, c := range l.components() {
		id, alive := recorded(c.name)
		state := "runs"
		if !alive {
			state = "has ended"
			dead = errors.Join(dead, c.failed(errors.New("does not run; `make cluster-up` starts it again")))
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", c.name, id, state, c.log)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out, "KUBECONFIG="+l.kubeconfig())
	return dead
}
