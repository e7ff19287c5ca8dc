// Package hostile is the table of raw requests that are made to be misunderstood,
// and what a gateway has to make of each. Tests send them: those of the data
// plane in its own process, and those of the programs end to end.
//
// A refused request is answered with the status named and its connection ends; of
// it nothing reaches an engine but the head of a message whose chunks turn bad
// behind it. A forwarded one reaches the engine as one request with the target,
// host and body named, whatever it looks like.
package hostile
