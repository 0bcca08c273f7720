package osqueue

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Origins are those whose pages may read the answers in a browser, and open
// WebSockets. The zero value is any, as with the original.
type Origins struct {
	none bool
	only []string
}

// Values of ParseOrigins that are no origins.
const (
	OriginsAny  = "any"
	OriginsNone = "none"
)

// ParseOrigins reads "any", "none", or origins with commas between, as browsers
// write them: https://dash.example.test:8443.
func ParseOrigins(text string) (Origins, error) {
	switch text {
	case OriginsAny, "*":
		return Origins{}, nil
	case OriginsNone, "":
		return Origins{none: true}, nil
	}
	var o Origins
	for one := range strings.SplitSeq(text, ",") {
		one = strings.ToLower(strings.TrimSpace(one))
		u, err := url.Parse(one)
		if err != nil || u.Scheme == "" || u.Host == "" || one != u.Scheme+"://"+u.Host {
			return o, fmt.Errorf("%q is no origin: write %s, %s, or a list like https://dash.example.test:8443,http://localhost:3000",
				one, OriginsAny, OriginsNone)
		}
		o.only = append(o.only, one)
	}
	return o, nil
}

// allows reports whether pages of that origin may read answers.
func (o *Origins) allows(origin string) bool {
	return !o.none && (len(o.only) == 0 || slices.Contains(o.only, strings.ToLower(origin)))
}

// What every answer says to browsers, the same whatever was asked.
const (
	exposedHeaders = "Connect-Protocol-Version"
	allowedMethods = "GET, POST, OPTIONS"
	allowedHeaders = "Content-Type, Connect-Protocol-Version, Connect-Timeout-Ms"
)

// mark puts on an answer what lets pages read it.
func (o *Origins) mark(w http.ResponseWriter, r *http.Request) {
	if o.none {
		return
	}
	h := w.Header()
	h.Set("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", exposedHeaders)
	if origin := r.Header.Get("Origin"); origin != "" && o.allows(origin) {
		h.Set("Access-Control-Allow-Origin", origin)
	}
}

// preflight answers the question of a browser whether it may send a request.
// Which route it asks for makes no difference.
func (o *Origins) preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if r.Header.Get("Origin") == "" || r.Header.Get("Access-Control-Request-Method") == "" {
		h.Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte("Invalid Preflight Request")) // the client may have gone
		return
	}
	h.Set("Access-Control-Allow-Methods", allowedMethods)
	h.Set("Access-Control-Allow-Headers", allowedHeaders)
	w.WriteHeader(http.StatusNoContent)
}
