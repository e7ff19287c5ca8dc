// Package testrig is what tests of several packages stand on: a log that is read
// while it is written, a free port, a certificate. No program imports it.
package testrig
