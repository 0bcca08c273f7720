package web

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"osqueue/internal/limit"
)

// GuardConfig configures a guard.
type GuardConfig struct {
	Hosts Hosts
	// Origins are the web origins whose pages may send unsafe requests, as browsers send
	// them. AnyOrigin allows all.
	Origins   []string
	AnyOrigin bool
	// Open are paths that pass under any host.
	Open []string
}

// Guard returns a handler that passes on to next what no page of a stranger has sent. It
// panics if an origin is invalid.
func Guard(cfg GuardConfig, next http.Handler) http.Handler {
	open := make(map[string]bool)
	for _, path := range cfg.Open {
		open[path] = true
	}
	origins := http.NewCrossOriginProtection()
	for _, origin := range cfg.Origins {
		if err := origins.AddTrustedOrigin(origin); err != nil {
			panic("web: " + err.Error())
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["X-Content-Type-Options"], h["Cache-Control"] = nosniff, noStore
		if !cfg.Hosts.allows(r.Host) && !open[r.URL.Path] {
			refuse(w, http.StatusMisdirectedRequest, "host_not_allowed",
				fmt.Sprintf("this node is not known as %q: use its address, or name the host with --allowed-hosts", limit.Clip(r.Host, clipMax)))
			return
		}
		if !cfg.AnyOrigin && origins.Check(r) != nil {
			refuse(w, http.StatusForbidden, "cross_origin",
				fmt.Sprintf("pages of the origin %q may not change anything here: name it with --cors-origins", limit.Clip(r.Header.Get("Origin"), clipMax)))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// The values of headers that all answers have. They are shared and must not be changed.
var (
	nosniff = []string{"nosniff"}
	noStore = []string{"no-store"}
)

// clipMax bounds the part of a header that an answer repeats.
const clipMax = 200

// problem is the body of a refusal, in the form of the problems of the API.
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Tag       string `json:"_tag"`
	Message   string `json:"message"`
	Committed string `json:"committed"`
}

func refuse(w http.ResponseWriter, status int, tag, detail string) {
	body, err := json.Marshal(problem{
		Type: "urn:osqueue:problem:" + tag, Title: http.StatusText(status), Status: status,
		Detail: detail, Tag: tag, Message: detail, Committed: "no",
	})
	if err != nil {
		body = []byte("{}")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have gone
}

// AnyHost is the entry of a list that allows all names.
const AnyHost = "any"

// Hosts are the names under which a node is known. The zero value has none: only addresses
// and the names of loopback are allowed.
type Hosts struct {
	any      bool
	names    map[string]bool
	suffixes []string // with a dot in front
}

// ParseHosts parses names separated by commas. An entry with a dot in front allows all
// names that end with it. "any" allows all names. Empty text allows none.
func ParseHosts(text string) (Hosts, error) {
	var h Hosts
	for one := range strings.SplitSeq(text, ",") {
		one = strings.ToLower(strings.TrimSpace(one))
		switch {
		case one == "":
		case one == AnyHost:
			h.any = true
		case strings.ContainsAny(one, "/: \t@*"):
			return h, fmt.Errorf("%q is not a host name: write names without port, such as queue.example.test, or .example.test for all below it, or %s",
				one, AnyHost)
		case strings.HasPrefix(one, "."):
			h.suffixes = append(h.suffixes, one)
		default:
			h.add(one)
		}
	}
	return h, nil
}

// Add allows the host of an address host:port.
func (h *Hosts) Add(address string) {
	if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
		h.add(strings.ToLower(host))
	}
}

func (h *Hosts) add(name string) {
	if h.names == nil {
		h.names = make(map[string]bool)
	}
	h.names[name] = true
}

// allows reports whether a request may name the host, which is the value of its Host
// header. A request of HTTP/1.0 has none; browsers always send one.
func (h *Hosts) allows(host string) bool {
	if h.any || host == "" {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || h.names[host] {
		return true
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return slices.ContainsFunc(h.suffixes, func(suffix string) bool { return strings.HasSuffix(host, suffix) })
}

// Upgrades reports whether r asks to continue with another protocol on its connection.
func Upgrades(r *http.Request, protocol string) bool {
	return lists(r.Header["Connection"], "upgrade") && lists(r.Header["Upgrade"], protocol)
}

// lists reports whether a header that is a list has an element.
func lists(lines []string, element string) bool {
	for _, line := range lines {
		for one := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(one), element) {
				return true
			}
		}
	}
	return false
}

// HostOf returns the address without the port.
func HostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
