package api

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
)

// Every answer that a test of this package gets from a rig is compared with the document: its
// status, its headers and its body.

// theDocument is openapi.yaml as plain values.
var theDocument = sync.OnceValue(func() *checker { return newChecker(openAPI) })

func newChecker(document []byte) *checker {
	var root object
	if err := yaml.Unmarshal(document, &root); err != nil {
		panic(err)
	}
	return &checker{root: root}
}

// operationOf returns the operation that a request is for, nil if there is none. A
// path without variables is preferred, as by the router.
func (c *checker) operationOf(method, path string) (op object, template string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	segments := strings.Split(path, "/")
	for candidate, methods := range c.at("#/paths") {
		found, there := methods.(object)[strings.ToLower(method)].(object)
		if !there || !fitsPath(strings.Split(candidate, "/"), segments) {
			continue
		}
		if op == nil || strings.Count(candidate, "{") < strings.Count(template, "{") {
			op, template = found, candidate
		}
	}
	return op, template
}

func fitsPath(template, segments []string) bool {
	if len(template) != len(segments) {
		return false
	}
	for i, part := range template {
		if part != segments[i] && (!strings.HasPrefix(part, "{") || segments[i] == "") {
			return false
		}
	}
	return true
}

// undescribed are the answers that any route can give, and that the document
// has once for all of them.
var undescribed = map[int]bool{
	http.StatusMethodNotAllowed:    true,
	http.StatusRequestTimeout:      true,
	http.StatusInternalServerError: true,
	http.StatusUnauthorized:        true,
	http.StatusForbidden:           true,
	kindGone:                       true,
}

const kindGone = 499 // no client reads it

// responseOf returns the described answer of that status.
func (c *checker) responseOf(op object, status int) (object, error) {
	responses := op["responses"].(object)
	if one, there := responses[strconv.Itoa(status)].(object); there {
		return c.deref(one), nil
	}
	one, there := responses["default"].(object)
	if !there || !undescribed[status] {
		return nil, fmt.Errorf("the status %d is not described", status)
	}
	return c.deref(one), nil
}

// ownHeaders are the response headers that the OpenAPI document describes.
var ownHeaders = []string{v1.HeaderLSN, v1.HeaderCommitted, v1.HeaderReplayed, "Retry-After", "Allow"}

// conforms returns how an answer differs from its description in the OpenAPI document.
func (c *checker) conforms(r *http.Request, a answer) error {
	op, _ := c.operationOf(r.Method, r.URL.EscapedPath())
	if op == nil {
		if a.status == http.StatusNotFound || a.status == http.StatusMethodNotAllowed {
			return c.check(c.at("#/components/schemas/Problem"), jsonOf(a.body))
		}
		return nil // of another handler
	}
	res, err := c.responseOf(op, a.status)
	if err != nil {
		return err
	}
	if err := c.conformsHeaders(res, a); err != nil || r.Method == http.MethodHead {
		return err
	}
	return c.conformsBody(res, a)
}

func (c *checker) conformsHeaders(res object, a answer) error {
	headers, _ := res["headers"].(object)
	for _, name := range ownHeaders {
		text := a.header.Get(name)
		if text == "" {
			continue
		}
		described, there := headers[name].(object)
		if !there {
			return fmt.Errorf("the header %s is not described with status %d", name, a.status)
		}
		schema := c.deref(c.deref(described)["schema"].(object))
		var value any = text
		if n, err := strconv.ParseFloat(text, 64); err == nil && schema["type"] == "integer" {
			value = n
		}
		if err := c.check(schema, value); err != nil {
			return fmt.Errorf("the header %s: %w", name, err)
		}
	}
	return nil
}

func (c *checker) conformsBody(res object, a answer) error {
	contents, _ := res["content"].(object)
	if len(contents) == 0 {
		if len(a.body) > 0 {
			return fmt.Errorf("a body of %d bytes is not described with status %d", len(a.body), a.status)
		}
		return nil
	}
	media, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if err != nil {
		return err
	}
	described, there := contents[media].(object)
	if !there {
		return fmt.Errorf("the content type %s is not described with status %d", media, a.status)
	}
	if !strings.HasSuffix(media, "json") {
		return nil
	}
	v := jsonOf(a.body)
	if m, isObject := v.(object); isObject && m["lsn"] != nil {
		if given := a.header.Get(v1.HeaderLSN); given != "" && given != m["lsn"] {
			return fmt.Errorf("the header says LSN %s, the body %v", given, m["lsn"])
		}
	}
	return c.check(described["schema"].(object), v)
}

// anyNumber reads numbers that are too large as infinite: payloads may hold
// them.
var anyNumber = json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, v *any) error {
	if dec.PeekKind() != jsontext.KindNumber {
		*v = nil // of a member with the same name
		return errors.ErrUnsupported
	}
	text, err := dec.ReadValue()
	if err != nil {
		return err
	}
	n, _ := strconv.ParseFloat(string(text), 64)
	*v = n
	return nil
}))

// jsonOf reads a body that should be JSON.
func jsonOf(body []byte) any {
	var v any
	if err := json.Unmarshal(body, &v, core.Lenient, anyNumber); err != nil {
		return fmt.Sprintf("not JSON (%v): %s", err, bytes.ToValidUTF8(body, nil))
	}
	return v
}

// conform is a test's check of one answer.
func conform(t testing.TB, r *http.Request, a answer) {
	t.Helper()
	if err := theDocument().conforms(r, a); err != nil {
		t.Errorf("%s %s: answered %d %s, which is not as openapi.yaml has it: %v", r.Method, r.URL, a.status, a.body, err)
	}
}
