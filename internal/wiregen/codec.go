package main

import (
	"fmt"
	"slices"
)

// codec writes the methods of a Message for an object whose fields have numbers.
func (g *generator) codec(name string, s *schema) {
	if !slices.ContainsFunc(s.Properties, func(p named[schema]) bool { return p.of.Field != 0 }) {
		return
	}
	g.checkNumbers(name, s)
	g.printf("\n// AppendJSON implements Message.\nfunc (m *%s) AppendJSON(b []byte) ([]byte, error) {\n", name)
	g.printf("w := writer{b: append(b, '{'), json: true}\nm.write(&w)\nreturn append(w.b, '}'), w.err\n}\n")
	g.printf("\n// AppendProto implements Message.\nfunc (m *%s) AppendProto(b []byte) ([]byte, error) {\n", name)
	g.printf("w := writer{b: b}\nm.write(&w)\nreturn w.b, w.err\n}\n")
	g.printf("\n// ParseProto implements Message.\nfunc (m *%s) ParseProto(b []byte, depth int) error {\n", name)
	g.printf("*m = %s{}\nr := reader{b: b, depth: depth}\nm.read(&r)\nreturn r.result()\n}\n", name)
	g.printf("\nfunc (m *%s) write(w *writer) {\n", name)
	for _, p := range s.Properties {
		g.writeField(p, slices.Contains(s.Required, p.name))
	}
	g.printf("}\n\nfunc (m *%s) read(r *reader) {\nfor r.next() {\nswitch r.num {\n", name)
	for _, p := range s.Properties {
		g.printf("case %d:\n", p.of.Field)
		g.readField(p, slices.Contains(s.Required, p.name))
	}
	g.printf("}\n}\n}\n")
}

// checkNumbers refuses an object with codecs in which a field has no number, or that of another.
func (g *generator) checkNumbers(name string, s *schema) {
	known := map[int]string{}
	for _, p := range s.Properties {
		switch of, there := known[p.of.Field]; {
		case p.of.Field <= 0:
			g.err = fmt.Errorf("%s.%s has no x-field, which its other fields have", name, p.name)
		case there:
			g.err = fmt.Errorf("%s.%s has the x-field of %s", name, p.name, of)
		}
		known[p.of.Field] = p.name
	}
	if len(s.AllOf) > 0 {
		g.err = fmt.Errorf("%s embeds another object, and its fields have an x-field", name)
	}
}

// writers and readers are the methods for types, and what the first need the value converted to.
var writers = map[string][2]string{
	"string": {"text"}, "bool": {"flag"}, "int32": {"number", "int64"}, "int64": {"number"}, "uint8": {"unsigned", "uint64"},
	"uint64": {"unsigned"}, "[]string": {"texts"},
}

var readers = map[string]string{
	"string": "text", "bool": "bool", "int32": "int32", "int64": "int64", "uint8": "uint8", "uint64": "uint64",
	"json.RawMessage": "raw",
}

// inner returns the object in a field or in its items.
func (g *generator) inner(s *schema) (object string, many bool) {
	target := g.referred(s)
	if target.is("array") {
		s, many = target.Items, true
		target = g.referred(s)
	}
	if !target.isStruct() {
		return "", false
	}
	object = g.goType(s)
	if len(target.Properties) == 0 || target.Properties[0].of.Field == 0 {
		g.err = fmt.Errorf("%s is in an object with codecs and has none: its fields need an x-field", object)
	}
	return object, many
}

func (g *generator) writeField(p named[schema], must bool) {
	at, value, need := fmt.Sprintf("%d, %q", p.of.Field, p.name), "m."+goName(p), "optional"
	object, many := g.inner(&p.of)
	goType, pointer := g.goType(&p.of), g.isPointer(&p.of, must)
	if must {
		need = "required"
	}
	if pointer {
		g.printf("if %s != nil {\n", value)
		defer g.printf("}\n")
	}
	switch {
	case many:
		g.printf("if w.list(%q, %s, len(%s), %s != nil) {\nfor i := range %s {\nat := w.item(%d)\n%s[i].write(w)\nw.end(at)\n}\nw.endList()\n}\n",
			p.name, need, value, value, value, p.of.Field, value)
	case object != "" && pointer:
		g.printf("at := w.object(%s)\n%s.write(w)\nw.end(at)\n", at, value)
	case goType == "json.RawMessage":
		g.printf("w.raw(%s, %s)\n", at, value)
	case goType == "map[string]string":
		g.printf("w.dict(%s, %s)\n", at, value)
	case writers[goType][0] == "":
		g.err = fmt.Errorf("no codec for %s, a %s", p.name, goType)
	default:
		if pointer {
			value, need = "*"+value, "present"
		}
		if by := writers[goType]; by[1] != "" {
			value = by[1] + "(" + value + ")"
		}
		g.printf("w.%s(%s, %s, %s)\n", writers[goType][0], at, need, value)
	}
}

func (g *generator) readField(p named[schema], must bool) {
	value := "m." + goName(p)
	object, many := g.inner(&p.of)
	goType := g.goType(&p.of)
	switch {
	case many:
		most := g.referred(&p.of).MaxItems
		if most == 0 {
			g.err = fmt.Errorf("%s is a list of objects with codecs and has no maxItems", p.name)
		}
		g.printf("if n := len(%s); r.room(%q, n, %d) {\nif n == 0 {\n%s = make(%s, 0, min(r.count(), %d))\n}\n", value, p.name, most, value, goType, most)
		g.printf("%s = append(%s, %s{})\nin := r.within(%q, 2)\n%s[n].read(&in)\nr.leave(&in, %q, n)\n}\n", value, value, object, p.name, value, p.name)
	case object != "":
		g.printf("%s = new(%s)\nin := r.within(%q, 1)\n%s.read(&in)\nr.leave(&in, %q, -1)\n", value, object, p.name, value, p.name)
	case goType == "[]string":
		g.printf("%s = append(%s, r.text(%q))\n", value, value, p.name)
	case goType == "map[string]string":
		g.printf("r.dict(%q, &%s)\n", p.name, value)
	case g.isPointer(&p.of, must):
		g.printf("%s = new(r.%s(%q))\n", value, readers[goType], p.name)
	default:
		g.printf("%s = r.%s(%q)\n", value, readers[goType], p.name)
	}
}
