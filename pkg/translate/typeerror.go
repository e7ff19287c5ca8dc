package translate

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// describeDecodeError says what stands where something else belongs.
func (d document) describeDecodeError(err error) finding {
	var wrong *json.UnmarshalTypeError
	var base64Error base64.CorruptInputError
	switch {
	case errors.As(err, &base64Error):
		return finding{field: "data", message: "a value is not base64: encode it, or move it to stringData"}
	case !errors.As(err, &wrong):
		return finding{message: strings.TrimPrefix(err.Error(), "json: ") + ": correct the value"}
	}
	got, _, _ := strings.Cut(wrong.Value, " ")
	want := jsonTypeName(wrong.Type.Kind().String())
	remedy := "write a " + want
	if want == "string" && (got == "bool" || got == "number") {
		remedy = "put the value in quotes"
	}
	return finding{
		field:   d.typeErrorField(wrong),
		message: fmt.Sprintf("a %s cannot stand here, where a %s belongs: %s", yamlTypeName(got), want, remedy),
	}
}

// jsonTypeName names what a Go kind is decoded from.
func jsonTypeName(goKind string) string {
	switch goKind {
	case "struct", "map":
		return "mapping"
	case "slice", "array":
		return "list"
	case "bool", "string":
		return goKind
	}
	return "number"
}

// yamlTypeName names a JSON type in YAML's words.
func yamlTypeName(jsonType string) string {
	switch jsonType {
	case "object":
		return "mapping"
	case "array":
		return "list"
	}
	return jsonType
}

// typeErrorField is the path of the value that a type error is about. The error
// itself names embedded Go structs and leaves out the indexes of lists.
func (d document) typeErrorField(err *json.UnmarshalTypeError) string {
	var steps []string
	for step := range strings.SplitSeq(err.Field, ".") {
		if step != "" && !unicode.IsUpper(rune(step[0])) {
			steps = append(steps, step)
		}
	}
	got, _, _ := strings.Cut(err.Value, " ")
	if node := d.object(); node != nil {
		if path, ok := findTyped(node, steps, "", got); ok {
			return path
		}
	}
	return strings.Join(steps, ".")
}

// findTyped finds the first value at the steps, whatever the indexes of lists in
// between, that has a JSON type.
func findTyped(node *yaml.Node, steps []string, path, jsonType string) (string, bool) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if len(steps) == 0 && hasJSONType(node, jsonType) {
		return path, true
	}
	if node.Kind == yaml.SequenceNode {
		for i, item := range node.Content {
			if found, ok := findTyped(item, steps, path+"["+strconv.Itoa(i)+"]", jsonType); ok {
				return found, true
			}
		}
	}
	if len(steps) == 0 {
		return "", false
	}
	next, _ := child(node, steps[0])
	if next == nil || node.Kind != yaml.MappingNode {
		return "", false
	}
	return findTyped(next, steps[1:], strings.TrimPrefix(path+"."+steps[0], "."), jsonType)
}

// hasJSONType reports whether a node becomes that type in JSON. Objects are read
// by the rules of YAML 1.1, where words like off are bools.
func hasJSONType(node *yaml.Node, jsonType string) bool {
	switch jsonType {
	case "object":
		return node.Kind == yaml.MappingNode
	case "array":
		return node.Kind == yaml.SequenceNode
	}
	if node.Kind != yaml.ScalarNode {
		return false
	}
	tag := node.ShortTag()
	plain := node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	switch jsonType {
	case "bool":
		return tag == "!!bool" || plain && isYAML11Bool(node.Value)
	case "number":
		return tag == "!!int" || tag == "!!float"
	}
	return tag == "!!str"
}

func isYAML11Bool(s string) bool {
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off":
		return true
	}
	return false
}
