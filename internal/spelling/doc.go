// Package spelling finds the known word that a misspelt one was meant to be, for
// messages that tell people so. It compares bytes and knows no language.
package spelling
