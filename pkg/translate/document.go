package translate

import (
	"bytes"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document is one YAML document of a file.
type document struct {
	number int // in the file, counted from 1
	line   int // of its first content in the file, counted from 1
	text   []byte
	items  []int // path of an object inside Lists
}

// item is the object at an index of the List that the document holds.
func (d document) item(i int) document {
	d.items = append(append([]int(nil), d.items...), i)
	return d
}

// splitDocuments splits a file at the lines that start with "---". Documents of
// nothing but white space and comments are left out, though they count.
func splitDocuments(data []byte) []document {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var docs []document
	current := document{number: 1, line: 1}
	flush := func(next int) {
		if hasContent(current.text) {
			docs = append(docs, current)
		}
		current = document{number: current.number + 1, line: next}
	}
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if isSeparator(text) {
			if line > 1 || hasContent(current.text) {
				flush(line)
			}
			// What follows the dashes belongs to the document; the line itself
			// stays, so that line numbers hold.
			current.line = line
			text = append([]byte("   "), text[3:]...)
		}
		current.text = append(current.text, text...)
	}
	flush(line)
	return docs
}

func isSeparator(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r' || rest[0] == '\n')
}

func hasContent(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return true
		}
	}
	return false
}

// lineOf is the line in the file of a field, or of the deepest part of its path
// that the document has.
func (d document) lineOf(field string) int {
	node := d.object()
	if node == nil {
		return d.line
	}
	line := node.Line
	for _, step := range splitPath(field) {
		next, at := child(node, step)
		if next == nil {
			break
		}
		node, line = next, at
	}
	return d.line + line - 1
}

// object is the document's object, or the one inside its Lists; nil where there
// is none.
func (d document) object() *yaml.Node {
	var root yaml.Node
	if yaml.Unmarshal(d.text, &root) != nil || len(root.Content) == 0 {
		return nil
	}
	node := root.Content[0]
	for _, i := range d.items {
		list, _ := child(node, "items")
		if list == nil {
			return nil
		}
		if node, _ = child(list, strconv.Itoa(i)); node == nil {
			return nil
		}
	}
	return node
}

// child is the value under a mapping's key or a list's index, and the line of
// that key or item.
func child(node *yaml.Node, step string) (*yaml.Node, int) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i+1], node.Content[i].Line
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i].Line
		}
	}
	return nil, 0
}

// splitPath splits "spec.rules[0].matches" or "metadata.annotations[a.b/c]" into
// its steps.
func splitPath(path string) []string {
	var steps []string
	for path != "" {
		end := strings.IndexAny(path, ".[")
		switch {
		case end < 0:
			return append(steps, path)
		case end > 0:
			steps = append(steps, path[:end])
		}
		if path[end] == '.' {
			path = path[end+1:]
			continue
		}
		inner, rest, _ := strings.Cut(path[end+1:], "]")
		steps = append(steps, inner)
		path = strings.TrimPrefix(rest, ".")
	}
	return steps
}
