package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// finding is one mistake: where it is and how to mend it.
type finding struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"` // counted from 1; 0: not known
	// Object is "Kind namespace/name"; empty where the file is no object.
	Object string `json:"object,omitempty"`
	// Field is a path such as spec.rules[0].backendRefs[1]; empty: the whole.
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

// String is one line: "file:line: object: field: message".
func (f finding) String() string {
	var parts []string
	file := f.File
	if f.Line > 0 {
		file += ":" + strconv.Itoa(f.Line)
	}
	for _, p := range []string{file, f.Object, f.Field, f.Message} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, ": ")
}

// printText writes one line for each finding.
func printText(w io.Writer, findings []finding) error {
	for _, f := range findings {
		if _, err := fmt.Fprintln(w, f); err != nil {
			return err
		}
	}
	return nil
}

// printJSON writes one document: {"findings": [...]}.
func printJSON(w io.Writer, findings []finding) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if findings == nil {
		findings = []finding{}
	}
	return encoder.Encode(struct {
		Findings []finding `json:"findings"`
	}{findings})
}
