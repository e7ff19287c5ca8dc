package cli

import "flexinfer.ai/gateway/internal/spelling"

// suggestion is "; did you mean …?" with the known word nearest to an unknown
// one, or empty where none is near.
func suggestion(unknown string, known []string, prefix string) string {
	best := spelling.Nearest(unknown, known, len(unknown)/2)
	if best == "" {
		return ""
	}
	return "; did you mean " + prefix + best + "?"
}
