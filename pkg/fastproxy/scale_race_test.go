//go:build race

package fastproxy

// scaled is n for tests that repeat something n times; the race detector makes
// each round several times as dear.
func scaled(n int) int { return max(n/10, 1) }
