package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// shapes has the fields that OpenAPI 3.1 allows in each kind of object, as far as the document
// uses them. Any other field is a mistake that readers of the document would ignore without a warning.
var shapes = map[string][]string{
	"document":  {"openapi", "info", "servers", "tags", "paths", "components"},
	"operation": {"tags", "operationId", "x-osqueue-right", "summary", "description", "parameters", "requestBody", "responses"},
	"parameter": {"name", "in", "required", "description", "schema", "examples"},
	"header":    {"description", "schema"},
	"body":      {"required", "content"},
	"response":  {"description", "headers", "content"},
	"content":   {"schema", "examples"},
	"example":   {"summary", "value"},
	"schema": {
		"type", "format", "description", "default", "examples", "enum", "const", "pattern", "minimum", "maximum", "minLength", "maxLength",
		"minItems", "maxItems", "maxProperties", "items", "properties", "required", "additionalProperties", "allOf", "anyOf",
		"contentMediaType", "contentSchema", "x-go-const", "x-go-name", "x-go-names", "x-go-pointer", "x-field",
	},
}

// shaper walks the document and records errors of its shape.
type shaper struct {
	*checker
	t        *testing.T
	examined bool // each body has an example
}

// object reports the words that an object of that kind cannot have. False: it is
// a reference.
func (s *shaper) object(kind, where string, o object) bool {
	if _, isRef := o["$ref"]; isRef {
		for word := range o {
			if word != "$ref" && (kind != "schema" || word != "description" && word != "x-field") {
				s.t.Errorf("%s: beside a $ref only the description and the number of a field count, not %q", where, word)
			}
		}
		return false
	}
	for word := range o {
		if !slices.Contains(shapes[kind], word) {
			s.t.Errorf("%s: a %s has no %q", where, kind, word)
		}
	}
	return true
}

// each calls fn for the objects in a map of them.
func each(of any, fn func(name string, o object)) {
	all, _ := of.(object)
	for name, o := range all {
		fn(name, o.(object))
	}
}

func (s *shaper) operation(where string, o object) {
	s.object("operation", where, o)
	for _, tag := range o["tags"].([]any) {
		if !slices.ContainsFunc(s.root["tags"].([]any), func(known any) bool { return known.(object)["name"] == tag }) {
			s.t.Errorf("%s: the tag %v is not described", where, tag)
		}
	}
	parameters, _ := o["parameters"].([]any)
	for i, p := range parameters {
		s.parameter(fmt.Sprintf("%s, parameter %d", where, i), p.(object))
	}
	if body, there := o["requestBody"].(object); there {
		s.body(where, body)
	}
	each(o["responses"], func(status string, r object) { s.response(where+" "+status, r) })
}

func (s *shaper) body(where string, o object) {
	if s.object("body", where, o) {
		s.contents(where, o["content"])
	}
}

func (s *shaper) parameter(where string, o object) {
	if !s.object("parameter", where, o) {
		return
	}
	if (o["in"] == "path") != (o["required"] == true) {
		s.t.Errorf("%s: what is in the path is required, and nothing else", where)
	}
	schema := o["schema"].(object)
	s.schema(where, schema)
	s.examples(where, schema, o["examples"])
}

func (s *shaper) response(where string, o object) {
	if !s.object("response", where, o) {
		return
	}
	if o["description"] == nil {
		s.t.Errorf("%s: there is no description", where)
	}
	each(o["headers"], func(name string, h object) { s.header(where+" "+name, h) })
	s.contents(where, o["content"])
}

func (s *shaper) header(where string, o object) {
	if s.object("header", where, o) {
		s.schema(where, o["schema"].(object))
	}
}

func (s *shaper) contents(where string, of any) {
	each(of, func(media string, o object) {
		s.object("content", where+" "+media, o)
		schema := o["schema"].(object)
		s.schema(where+" "+media, schema)
		if s.examined && media == "application/json" && o["examples"] == nil {
			s.t.Errorf("%s has no example", where)
		}
		s.examples(where+" "+media, schema, o["examples"])
	})
}

func (s *shaper) examples(where string, schema object, of any) {
	each(of, func(name string, e object) {
		s.object("example", where+" "+name, e)
		s.fits(where+" "+name, schema, e["value"])
	})
}

// fits holds an example or default against its schema.
func (s *shaper) fits(where string, schema object, v any) {
	if err := s.check(schema, jsonOf([]byte(textOf(v)))); err != nil {
		s.t.Errorf("%s: %v", where, err)
	}
}

func (s *shaper) schema(where string, o object) {
	if !s.object("schema", where, o) {
		return
	}
	if v, there := o["default"]; there {
		s.fits(where+", default", o, v)
	}
	examples, _ := o["examples"].([]any)
	for _, v := range examples {
		s.fits(where+", example", o, v)
	}
	each(o["properties"], func(name string, p object) { s.schema(where+"."+name, p) })
	for _, word := range []string{"items", "additionalProperties", "contentSchema"} {
		if one, there := o[word].(object); there {
			s.schema(where+" "+word, one)
		}
	}
	for _, word := range []string{"allOf", "anyOf"} {
		parts, _ := o[word].([]any)
		for _, part := range parts {
			s.schema(where+" "+word, part.(object))
		}
	}
}

func TestDocumentIsOpenAPI(t *testing.T) {
	for name, document := range map[string][]byte{"openapi.yaml": openAPI, "cluster.yaml": ClusterOpenAPI} {
		t.Run(name, func(t *testing.T) {
			s := &shaper{checker: newChecker(document), t: t, examined: name == "openapi.yaml"}
			s.document()
		})
	}
}

func (s *shaper) document() {
	s.object("document", "the document", s.root)
	if version, _ := s.root["openapi"].(string); !strings.HasPrefix(version, "3.1.") {
		s.t.Errorf("version %v", s.root["openapi"])
	}
	for path, methods := range s.at("#/paths") {
		each(methods, func(method string, op object) { s.operation(method+" "+path, op) })
	}
	for kind, of := range s.at("#/components") {
		fn := map[string]func(string, object){
			"parameters": s.parameter, "headers": s.header, "responses": s.response, "schemas": s.schema, "requestBodies": s.body,
		}[kind]
		if fn == nil {
			s.t.Errorf("components of the kind %s", kind)
			continue
		}
		each(of, fn)
	}
}
