//go:build !race

package fastproxy

// scaled is n for tests that repeat something n times.
func scaled(n int) int { return n }
