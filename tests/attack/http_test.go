package attack

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	v1 "osqueue/client/api/v1"
)

// httpRoute is an operation of openapi.yaml.
type httpRoute struct {
	method, path string
	hasBody      bool // of JSON
}

// routesOf reads the routes from the document that a node serves.
func routesOf(t *testing.T, address string) []httpRoute {
	t.Helper()
	a, err := request(address, "GET "+v1.PathOpenAPI+" HTTP/1.1\r\nHost: "+address+"\r\nConnection: close\r\n\r\n", answerMax)
	if err != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("the document: %v %v", a, err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Body struct{ Content map[string]any } `yaml:"requestBody"`
		}
	}
	if err := yaml.Unmarshal([]byte(a.Body), &doc); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("{id}", "x", "{type}", "x", "{name}", "x", "{lsn}", "0-0")
	var all []httpRoute
	for path, ops := range doc.Paths {
		if path == "/v1/drain" {
			continue // a valid request ends the node, and most malformations leave it valid
		}
		for method, op := range ops {
			all = append(all, httpRoute{strings.ToUpper(method), fill.Replace(path), op.Body.Content["application/json"] != nil})
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].path+all[i].method < all[j].path+all[j].method })
	if len(all) < 50 {
		t.Fatalf("the document has %d operations", len(all))
	}
	return all
}

// malformation is a class of malformed requests.
type malformation struct {
	name string
	// request returns the bytes to send to a route, or "" if the class does not concern it.
	request func(r httpRoute, host string) string
	// refused says that no route may accept the request, and with which statuses it is refused; 0 is
	// a connection that is closed without an answer. Nil: any answer is fine but those of server faults.
	refused []int
}

// plain returns a request with a line, further headers and a body of its own.
func plain(r httpRoute, host, headers, body string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n%s", r.method, r.path, host, headers, body)
}

// withJSON returns a request with a JSON body. It asks for strict handling, because the routes of
// a legacy contract repair many bodies otherwise.
func withJSON(body string) func(httpRoute, string) string {
	return func(r httpRoute, host string) string {
		if !r.hasBody {
			return ""
		}
		return plain(r, host, fmt.Sprintf("Prefer: handling=strict\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", len(body)), body)
	}
}

// withHeaders returns a request with headers, which are malformed.
func withHeaders(headers string) func(httpRoute, string) string {
	return func(r httpRoute, host string) string { return plain(r, host, headers, "") }
}

// withMedia returns a request whose body has the wrong type.
func withMedia(headers string) func(httpRoute, string) string {
	return func(r httpRoute, host string) string {
		if !r.hasBody {
			return ""
		}
		return plain(r, host, headers+"Content-Length: 2\r\n", "{}")
	}
}

// withQuery returns a request with a query.
func withQuery(query string) func(httpRoute, string) string {
	return func(r httpRoute, host string) string {
		r.path += "?" + query
		return plain(r, host, "Content-Length: 0\r\n", "")
	}
}

var (
	bad     = []int{http.StatusBadRequest}
	noMedia = []int{http.StatusUnsupportedMediaType}
	noBody  = []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge}
)

// malformations are the classes of malformed requests. With the routes they make the table.
var malformations = []malformation{
	{"no host", func(r httpRoute, _ string) string { return r.method + " " + r.path + " HTTP/1.1\r\n\r\n" }, bad},
	{"two hosts", withHeaders("Host: other\r\n"), bad},
	{"a host with a space", func(r httpRoute, _ string) string { return plain(r, "a b", "", "") }, bad},
	{"a version of the future", func(r httpRoute, host string) string {
		return r.method + " " + r.path + " HTTP/7.7\r\nHost: " + host + "\r\n\r\n"
	}, []int{http.StatusBadRequest, http.StatusHTTPVersionNotSupported}},
	{"no version", func(r httpRoute, _ string) string { return r.method + " " + r.path + "\r\n\r\n" }, bad},
	{"a method with a space", func(r httpRoute, host string) string { r.method = "GE T"; return plain(r, host, "", "") }, bad},
	{"an unknown method", func(r httpRoute, host string) string { r.method = "BREW"; return plain(r, host, "", "") }, []int{http.StatusNotFound, http.StatusMethodNotAllowed}},
	{"a huge head", withHeaders("X-A: " + strings.Repeat("a", 80<<10) + "\r\n"), []int{http.StatusRequestHeaderFieldsTooLarge, 0}},
	{"many headers", withHeaders(strings.Repeat("X-A: b\r\n", 10_000)), []int{http.StatusRequestHeaderFieldsTooLarge, 0}},
	{"a header without a colon", withHeaders("nonsense\r\n"), bad},
	{"a header name with a space", withHeaders("X A: b\r\n"), bad},
	{"a space before the colon", withHeaders("Content-Length : 5\r\n"), bad},
	{"NUL in a header", withHeaders("X-A: a\x00b\r\n"), bad},
	{"a bare CR in a header", withHeaders("X-A: a\rb\r\n"), bad},
	{"a folded header", withHeaders("X-A: a\r\n b\r\n"), nil},
	{"a negative length", withHeaders("Content-Length: -1\r\n"), bad},
	{"a length with a sign", withHeaders("Content-Length: +2\r\n"), bad},
	{"a length in hex", withHeaders("Content-Length: 0x2\r\n"), bad},
	{"a length of 2^64", withHeaders("Content-Length: 18446744073709551616\r\n"), bad},
	{"two lengths", withHeaders("Content-Length: 2\r\nContent-Length: 3\r\n"), bad},
	{"a list of lengths", withHeaders("Content-Length: 2, 3\r\n"), bad},
	{"a huge length", withHeaders("Content-Type: application/json\r\nContent-Length: 9223372036854775807\r\n"), nil},
	{"an unknown coding", withHeaders("Transfer-Encoding: zip\r\n"), []int{http.StatusBadRequest, http.StatusNotImplemented}},
	{"two codings", withHeaders("Transfer-Encoding: chunked, chunked\r\n"), []int{http.StatusBadRequest, http.StatusNotImplemented}},
	{"a hidden coding", withHeaders("Transfer-Encoding: \x0bchunked\r\n"), []int{http.StatusBadRequest, http.StatusNotImplemented}},
	{"a length and a coding", func(r httpRoute, host string) string {
		return plain(r, host, "Content-Type: application/json\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")
	}, nil},
	{"a broken chunk", func(r httpRoute, host string) string {
		if !r.hasBody {
			return ""
		}
		return plain(r, host, "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n", "zz\r\n{}\r\n0\r\n\r\n")
	}, bad},
	{"a chunk of 2^64", func(r httpRoute, host string) string {
		if !r.hasBody {
			return ""
		}
		return plain(r, host, "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n{}\r\n0\r\n\r\n")
	}, bad},
	{"an expectation", withHeaders("Expect: 200-maybe\r\n"), []int{http.StatusExpectationFailed}},
	{"an upgrade to h2c", withHeaders("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"), nil},
	{"an override of the method", withHeaders("X-HTTP-Method-Override: DELETE\r\nContent-Length: 0\r\n"), nil},
	{"a forwarded request", withHeaders("Osqueue-Forwarded: n9\r\nOsqueue-Client-Certificate: e30\r\nContent-Length: 0\r\n"), nil},
	{"a path that leaves", func(r httpRoute, host string) string {
		r.path += "/../../../../etc/passwd"
		return plain(r, host, "Content-Length: 0\r\n", "")
	}, []int{http.StatusBadRequest, http.StatusNotFound, http.StatusMovedPermanently, http.StatusPermanentRedirect, http.StatusTemporaryRedirect}},
	{"a path with escaped dots", func(r httpRoute, host string) string {
		r.path += "/%2e%2e%2f%2e%2e%2fetc%2fpasswd"
		return plain(r, host, "Content-Length: 0\r\n", "")
	}, nil}, // the name of a type may be anything
	{"a broken escape", func(r httpRoute, host string) string { r.path += "/%zz"; return plain(r, host, "", "") }, bad},
	{"a control character in the path", func(r httpRoute, host string) string { r.path += "/\x01"; return plain(r, host, "", "") }, bad},
	{"a long path", func(r httpRoute, host string) string {
		r.path += "/" + strings.Repeat("a", 50<<10)
		return plain(r, host, "", "")
	}, []int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed}},
	{"an absolute path", func(r httpRoute, host string) string {
		r.path = "http://evil.example" + r.path
		return plain(r, host, "Content-Length: 0\r\n", "")
	}, nil},
	{"a broken query", withQuery("%zz=%zz&;=;"), nil},
	{"a long query", withQuery("type=" + strings.Repeat("a", 50<<10)), nil},
	{"numbers out of range", withQuery("limit=-1&waitMs=-5&minLsn=18446744073709551616-18446744073709551616&ackWaitMs=1e309"), nil},
	{"repeated parameters", withQuery(strings.Repeat("ack=quorum&consistency=local&status=all&", 500)), nil},
	{"an empty key", func(r httpRoute, host string) string {
		if r.method == http.MethodGet || !r.hasBody {
			return ""
		}
		return plain(r, host, "Idempotency-Key:\r\nContent-Type: application/json\r\nContent-Length: 2\r\n", "{}")
	}, bad},
	{"no media type", withMedia(""), noMedia},
	{"another media type", withMedia("Content-Type: text/xml\r\n"), noMedia},
	{"a form", withMedia("Content-Type: application/x-www-form-urlencoded\r\n"), noMedia},
	{"another charset", withMedia("Content-Type: application/json; charset=utf-16\r\n"), noMedia},
	{"a compressed body", withMedia("Content-Type: application/json\r\nContent-Encoding: gzip\r\n"), noMedia},
	{"a body over the limit", func(r httpRoute, host string) string {
		if !r.hasBody {
			return ""
		}
		return plain(r, host, "Content-Type: application/json\r\nContent-Length: 4000000\r\n", "{")
	}, []int{http.StatusRequestEntityTooLarge}},
	{"half of a document", withJSON(`{"type":"x","pay`), bad},
	{"two documents", withJSON(`{}{}`), bad},
	{"a list in place of an object", withJSON(`[1,2,3]`), bad},
	{"a text in place of an object", withJSON(`"{}"`), bad},
	{"null", withJSON(`null`), nil},
	{"a byte order mark", withJSON("\xef\xbb\xbf{}"), nil},
	{"NaN", withJSON(`{"priority":NaN,"max":Infinity}`), bad},
	{"a number of 400 digits", withJSON(`{"priority":` + strings.Repeat("9", 400) + `,"max":` + strings.Repeat("9", 400) + `}`), bad},
	{"text that is not UTF-8", withJSON("{\"type\":\"\xff\xfe\"}"), bad},
	{"NUL in a body", withJSON("{\"type\":\"a\x00b\"}"), bad},
	{"half of a surrogate pair", withJSON(`{"type":"\ud800","name":"\ud800","workerId":"\ud800"}`), bad},
	{"deep lists", withJSON(`{"payload":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`), bad},
	{"deep objects", withJSON(strings.Repeat(`{"a":`, 50_000) + "1" + strings.Repeat("}", 50_000)), bad},
	{"70 000 fields", withJSON("{" + strings.Repeat(`"a":1,`, 70_000) + `"b":2}`), noBody},
	{"wrong types", withJSON(`{"id":{},"type":[],"payload":1,"jobs":"x","types":5,"role":7,"workerId":{},"filter":[],"name":{},"spec":1,"token":[]}`), bad},
	{"the keys of a prototype", withJSON(`{"__proto__":{"admin":true},"constructor":{"prototype":{}}}`), nil},
}

// probe writes bytes and reads the head of the first answer. The status is 0 if the connection is
// closed without one.
func probe(address, text string, within time.Duration) (int, error) {
	c, err := net.DialTimeout("tcp", address, within)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		return 0, err
	}
	_, _ = io.WriteString(c, text) // the node may answer before it has read all
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	var timeout net.Error
	switch {
	case err == nil:
		_ = resp.Body.Close()
		return resp.StatusCode, nil
	case errors.As(err, &timeout) && timeout.Timeout():
		return 0, err
	}
	return 0, nil
}

// serverFaults are statuses that no request may cause.
var serverFaults = []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout, http.StatusInsufficientStorage}

// Malformed requests to every route are refused, or mean nothing; none of them ends a node, costs much
// memory, or keeps others waiting.
func TestMalformedHTTP(t *testing.T) {
	t.Parallel()
	g := newTarget(t, 1)
	n := g.Nodes[0]
	routes := routesOf(t, n.HTTP)
	var rows atomic.Int64
	g.attackMany("malformed", func(t *testing.T) {
		for _, m := range malformations {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel() // some routes wait for 5 s
				for _, r := range routes {
					text := m.request(r, n.HTTP)
					if text == "" {
						continue
					}
					rows.Add(1)
					status, err := probe(n.HTTP, text, answerMax)
					switch {
					case err != nil:
						t.Errorf("%s %s: %v", r.method, r.path, err)
					case slices.Contains(serverFaults, status):
						t.Errorf("%s %s is answered %d", r.method, r.path, status)
					case m.refused != nil && !slices.Contains(m.refused, status):
						t.Errorf("%s %s is answered %d, want one of %v", r.method, r.path, status, m.refused)
					}
				}
				if !n.Running() {
					t.Errorf("the process of %s has ended", n.Name)
				}
			})
		}
	})
	t.Logf("%d malformed requests in %d classes over %d routes", rows.Load(), len(malformations), len(routes))
	counted(t, int(rows.Load()))
	g.settled()
}
