package enginesim

import "strings"

// vocabulary holds words of at most maxTokenBytes ASCII letters, so that text
// joined from them is cut into the very same tokens when it comes back as the
// history of a conversation.
var vocabulary = strings.Fields(`the of a to in is it and for on with as are at by or an be this that
	from but not have has was more can will other about out many then them these some would into time
	two see way could people first water been call who oil its now find long down day did get come
	made may part over new sound take only little work know place year live me back give most very
	after thing our just name good man think say great where help much before line right too mean
	old any same tell boy follow came want show also around form three small set put end does well
	large must big even such turn here why ask went read need land home us move try kind hand change`)

// Lengths of a sentence in words.
const (
	shortestSentence = 6
	longestSentence  = 12
)

// textGenerator yields the tokens of an answer, the same for the same seed.
// Not safe for concurrent use. Source of the generator: splitmix64.
type textGenerator struct {
	state   uint64
	yielded int // tokens so far
	word    int // words so far in this sentence
	length  int // words in this sentence
}

func newTextGenerator(seed uint64) *textGenerator { return &textGenerator{state: seed} }

// next returns the next token: a word with a space in front (but for the very
// first), capitalised where a sentence begins, or a full stop.
func (g *textGenerator) next() string {
	first := g.yielded == 0
	g.yielded++
	if g.length > 0 && g.word == g.length {
		g.word, g.length = 0, 0
		return "."
	}
	if g.length == 0 {
		g.length = shortestSentence + int(g.random()%(longestSentence-shortestSentence+1))
	}
	word := vocabulary[g.random()%uint64(len(vocabulary))]
	if g.word == 0 {
		word = strings.ToUpper(word[:1]) + word[1:]
	}
	g.word++
	if first {
		return word
	}
	return " " + word
}

func (g *textGenerator) random() uint64 {
	g.state += 0x9e3779b97f4a7c15
	z := g.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
