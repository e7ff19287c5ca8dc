package translate

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Problem is why a document of a file, or an object in it, was left out.
type Problem struct {
	File     string
	Document int // counted from 1
	Line     int // in the file, counted from 1; of the field where it is known
	// Kind, Namespace and Name are those of the object, as far as they could be
	// read.
	Kind, Namespace, Name string
	// Field is the path of the offending field; empty: the document as a whole.
	Field string
	// Message says what is wrong and how to mend it.
	Message string
}

// String is one line for people:
// "chat.yaml:12: HTTPRoute default/chat: spec.rules[0]: …".
func (p Problem) String() string {
	s := fmt.Sprintf("%s:%d: ", p.File, p.Line)
	if p.Kind != "" {
		s += p.Kind + " "
		if p.Namespace != "" {
			s += p.Namespace + "/"
		}
		s += p.Name + ": "
	}
	if p.Field != "" {
		s += p.Field + ": "
	}
	return s + p.Message
}

// Decoder gathers the objects of YAML files. The zero value is ready; it must
// not be used by two goroutines at once.
//
// Decoding is strict: an unknown field, a value that an API server would
// refuse, a second object of the same name are problems, and the object is left
// out. Defaults are filled in as an API server does. One bad document never
// loses another one.
type Decoder struct {
	// Resources are the objects decoded so far, ready for Translate.
	Resources Resources

	origins map[objectID]origin
}

// objectID identifies an object.
type objectID struct{ kind, namespace, name string }

// origin is where an object came from.
type origin struct {
	file string
	doc  document
}

// Decode decodes one file.
func Decode(file string, data []byte) (Resources, []Problem) {
	var d Decoder
	problems := d.Add(file, data)
	return d.Resources, problems
}

// Add decodes all documents of a file and adds their objects to Resources. The
// name only serves for Problems.
func (d *Decoder) Add(file string, data []byte) []Problem {
	var problems []Problem
	for _, doc := range splitDocuments(data) {
		problems = append(problems, d.addDocument(file, doc)...)
	}
	return problems
}

// Where is the file and line of a Warning's field, as far as it stands in the
// files; else of its object. ok is false for objects that came from no file.
func (d *Decoder) Where(w Warning) (file string, line int, ok bool) {
	o, ok := d.origins[objectID{w.Kind, w.Namespace, w.Name}]
	if !ok {
		return "", 0, false
	}
	return o.file, o.doc.lineOf(w.Field), true
}

func (d *Decoder) addDocument(file string, doc document) []Problem {
	problem := Problem{File: file, Document: doc.number, Line: doc.line}
	raw, err := yaml.YAMLToJSONStrict(doc.text)
	if err != nil {
		problem.Line, problem.Message = doc.syntaxError(err)
		return []Problem{problem}
	}
	if string(raw) == "null" {
		return nil
	}
	return d.addJSON(problem, doc, raw)
}

// addJSON adds one object, or all of a List.
func (d *Decoder) addJSON(problem Problem, doc document, raw []byte) []Problem {
	var meta struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Items             []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		f := doc.describeDecodeError(err)
		if f.field == "" {
			f.message = "not a Kubernetes object: write a mapping with apiVersion, kind and metadata"
		}
		problem.Line, problem.Field, problem.Message = doc.lineOf(f.field), f.field, f.message
		return []Problem{problem}
	}
	if meta.APIVersion == "v1" && meta.Kind == "List" {
		var problems []Problem
		for i, item := range meta.Items {
			problems = append(problems, d.addJSON(problem, doc.item(i), item)...)
		}
		return problems
	}
	problem.Kind, problem.Namespace, problem.Name = meta.Kind, meta.Namespace, meta.Name
	kind, unknown := findKind(meta.TypeMeta)
	if unknown != nil {
		return doc.problems(problem, []finding{*unknown})
	}
	switch {
	case kind.clusterScoped:
		problem.Namespace = ""
	case problem.Namespace == "":
		problem.Namespace = metav1.NamespaceDefault
	}
	id := objectID{meta.Kind, problem.Namespace, meta.Name}
	return doc.problems(problem, d.addObject(id, origin{problem.File, doc}, kind, raw))
}

// problems places findings in the file; the object is that of the problem.
func (d document) problems(problem Problem, found []finding) []Problem {
	problems := make([]Problem, 0, len(found))
	for _, f := range found {
		p := problem
		p.Line, p.Field, p.Message = d.lineOf(f.field), f.field, f.message
		problems = append(problems, p)
	}
	return problems
}

// addObject decodes, completes and checks one object and adds it, unless
// something is found.
func (d *Decoder) addObject(id objectID, from origin, kind decodableKind, raw []byte) []finding {
	obj := kind.newObject()
	if found := unmarshalStrict(from.doc, raw, obj); len(found) > 0 {
		return found
	}
	obj.SetNamespace(id.namespace)
	v := &validator{}
	v.metadata(obj, kind)
	kind.complete(obj, v)
	if len(v.found) > 0 {
		return v.found
	}
	if first, ok := d.origins[id]; ok {
		return []finding{{message: fmt.Sprintf("declared a second time, first in %s:%d: remove one of the two", first.file, first.doc.line)}}
	}
	if d.origins == nil {
		d.origins = map[objectID]origin{}
	}
	d.origins[id] = from
	kind.add(&d.Resources, obj)
	return nil
}

// findKind finds how to decode objects of a type.
func findKind(meta metav1.TypeMeta) (decodableKind, *finding) {
	switch {
	case meta.Kind == "":
		return decodableKind{}, &finding{field: "kind", message: "missing: add the kind of the object"}
	case meta.APIVersion == "":
		return decodableKind{}, &finding{field: "apiVersion", message: "missing: add the API group and version of the object"}
	}
	gvk := schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind)
	i := slices.IndexFunc(decodableKinds, func(k decodableKind) bool {
		return k.gvk == gvk || k.gvk.GroupKind() == gvk.GroupKind() && slices.Contains(k.olderVersions, gvk.Version)
	})
	if i >= 0 {
		return decodableKinds[i], nil
	}
	for _, k := range decodableKinds {
		if k.gvk.Kind == meta.Kind {
			return decodableKind{}, &finding{field: "apiVersion",
				message: fmt.Sprintf("%s of %s is not known: use apiVersion %s", meta.Kind, meta.APIVersion, k.gvk.GroupVersion())}
		}
	}
	return decodableKind{}, &finding{field: "kind",
		message: fmt.Sprintf("the gateway reads no objects of kind %s: remove the document; it reads %s", meta.Kind, listKinds())}
}

func listKinds() string {
	names := make([]string, len(decodableKinds))
	for i, k := range decodableKinds {
		names[i] = k.gvk.Kind
	}
	return strings.Join(names, ", ")
}

// unmarshalStrict decodes JSON; every unknown and every repeated field is found.
func unmarshalStrict(doc document, raw []byte, into any) []finding {
	strict, err := kjson.UnmarshalStrict(raw, into)
	if err != nil {
		return []finding{doc.describeDecodeError(err)}
	}
	var found []finding
	for _, e := range strict {
		f := finding{message: e.Error()}
		var field kjson.FieldError
		if errors.As(e, &field) {
			f = finding{field: field.FieldPath(), message: "unknown field: remove it or correct its name"}
			if strings.HasPrefix(e.Error(), "duplicate") {
				f.message = "the field stands twice: remove one of the two"
			}
		}
		found = append(found, f)
	}
	return found
}

var (
	yamlErrorLine  = regexp.MustCompile(`line (\d+)`)
	yamlErrorValue = regexp.MustCompile("`[^`]*`")
)

// syntaxError places a YAML error in the file: its lines count from the
// document's first one. Values that it quotes are left out, since they may be
// secret.
func (d document) syntaxError(err error) (line int, message string) {
	line = d.line
	message = strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	message = strings.TrimPrefix(message, "yaml: ")
	message = strings.Join(strings.Fields(strings.TrimPrefix(message, "unmarshal errors:")), " ")
	message = yamlErrorValue.ReplaceAllLiteralString(message, "a value")
	if m := yamlErrorLine.FindStringSubmatch(message); m != nil {
		n, _ := strconv.Atoi(m[1])
		line = n + d.line - 1
	}
	message = yamlErrorLine.ReplaceAllStringFunc(message, func(s string) string {
		n, _ := strconv.Atoi(strings.TrimPrefix(s, "line "))
		return fmt.Sprintf("line %d", n+d.line-1)
	})
	return line, "not valid YAML: " + message + ": correct the syntax"
}
