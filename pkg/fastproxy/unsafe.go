package fastproxy

import (
	"reflect"
	"unsafe"

	"github.com/valyala/fasthttp"
)

// headerField is one field line as fasthttp stores it: the same memory, seen
// through a type of our own. It exists because fasthttp's own Del moves the last
// field to the place of the deleted one, which changes the order of lines that
// share a name, and because its iterators take the Cookie line apart.
type headerField struct {
	key, value []byte
	noValue    bool
}

var (
	requestFieldsAt  = fieldsOffset(reflect.TypeFor[fasthttp.RequestHeader]())
	responseFieldsAt = fieldsOffset(reflect.TypeFor[fasthttp.ResponseHeader]())
)

// requestFields is the list of h's field lines, without those that fasthttp
// keeps apart: Host, User-Agent, Content-Type, Content-Length, Trailer.
func requestFields(h *fasthttp.RequestHeader) *fieldList {
	return (*fieldList)(unsafe.Add(unsafe.Pointer(h), requestFieldsAt))
}

// responseFields is the list of h's field lines, without those that fasthttp
// keeps apart: Server, Content-Type, Content-Encoding, Content-Length,
// Set-Cookie, Trailer.
func responseFields(h *fasthttp.ResponseHeader) *fieldList {
	return (*fieldList)(unsafe.Add(unsafe.Pointer(h), responseFieldsAt))
}

// fieldsOffset finds the list within a header type of fasthttp and makes sure
// that it is laid out like fieldList. The module's version is pinned, so this
// fails at start-up of a build with another fasthttp or never.
func fieldsOffset(t reflect.Type) uintptr {
	base, ok := t.FieldByName("header")
	if !ok {
		panic("BUG: fasthttp's " + t.Name() + " has another layout: adapt unsafe.go")
	}
	list, ok := base.Type.FieldByName("h")
	if !ok || list.Type.Kind() != reflect.Slice || !sameLayout(list.Type.Elem(), reflect.TypeFor[headerField]()) {
		panic("BUG: fasthttp's " + t.Name() + " has another layout: adapt unsafe.go")
	}
	return base.Offset + list.Offset
}

func sameLayout(a, b reflect.Type) bool {
	if a.Kind() != reflect.Struct || a.NumField() != b.NumField() || a.Size() != b.Size() {
		return false
	}
	for i := range b.NumField() {
		x, y := a.Field(i), b.Field(i)
		if x.Name != y.Name || x.Type != y.Type || x.Offset != y.Offset {
			return false
		}
	}
	return true
}
