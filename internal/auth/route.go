package auth

import (
	"net/http"
	"strings"
)

// Route is a request of an operator or of a node, outside of the API.
type Route struct {
	Pattern string // of http.ServeMux: method and path
	Right   Right
	Handler http.HandlerFunc
}

// Method returns the method of the pattern.
func (r *Route) Method() string {
	method, _, _ := strings.Cut(r.Pattern, " ")
	return method
}

// Path returns the path of the pattern.
func (r *Route) Path() string {
	_, path, _ := strings.Cut(r.Pattern, " ")
	return path
}

// Mux serves the routes that one of the given rights is enough for. guard, unless nil, returns the
// handler that checks the caller of a route. Mux panics if a route declares no right.
func Mux(routes []Route, rights Right, guard func(Route) http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range routes {
		if r.Right == 0 {
			panic("auth: there is no declared right for " + r.Pattern)
		}
		if r.Right &= rights; r.Right == 0 {
			continue
		}
		var h http.Handler = r.Handler
		if guard != nil {
			h = guard(r)
		}
		mux.Handle(r.Pattern, h)
	}
	return mux
}
