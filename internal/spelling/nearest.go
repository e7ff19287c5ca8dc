package spelling

// Nearest returns the known word that is fewest insertions, deletions and
// substitutions of bytes away from word, the first of several, or "" where none is
// within limit. It costs len(word) times the length of each known word whose
// length is within limit of it, and nothing for others.
func Nearest(word string, known []string, limit int) string {
	best, bestDistance := "", limit+1
	for _, k := range known {
		if max(len(k), len(word))-min(len(k), len(word)) >= bestDistance {
			continue
		}
		if d := distance(word, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			substitute := diagonal
			if a[i-1] != b[j-1] {
				substitute++
			}
			diagonal = row[j]
			row[j] = min(row[j]+1, row[j-1]+1, substitute)
		}
	}
	return row[len(b)]
}
