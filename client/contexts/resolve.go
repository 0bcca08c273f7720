package contexts

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// The environment variables that every client reads.
const (
	EnvContext = "OSQUEUE_CONTEXT" // the name of a context
	EnvServers = "OSQUEUE_SERVERS" // the servers, separated by commas
	EnvCA      = "OSQUEUE_CA"      // a file with the certificates of the CA
	EnvToken   = "OSQUEUE_TOKEN"   //nolint:gosec // the name of a variable
)

// Given are the values that a caller gives by flags; empty ones are not given.
type Given struct {
	Context string   // the name of a context
	Servers []string // as host:port or URLs
	CA      string   // file with the certificates of the CA
	Token   string   // access token
}

// Resolved is a choice. Servers may be empty, if nothing names any.
type Resolved struct {
	Context
	Name string // of the context that counts; "": none
}

// Resolve chooses between flags, the environment and a context, in this order.
func (s Store) Resolve(g Given, getenv func(string) string) (Resolved, error) {
	var out Resolved
	out.Servers, out.Token = g.Servers, firstOf(g.Token, getenv(EnvToken))
	if len(out.Servers) == 0 {
		out.Servers = split(getenv(EnvServers))
	}
	if file := firstOf(g.CA, getenv(EnvCA)); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return out, fmt.Errorf("%s: %w", EnvCA, err)
		}
		out.CA = string(pem)
	}
	name, c, err := s.choose(firstOf(g.Context, getenv(EnvContext)), out.Servers)
	if err != nil || name == "" {
		return out, err
	}
	out.Name = name
	if len(out.Servers) == 0 {
		out.Servers = c.Servers
	}
	out.CA, out.Token = firstOf(out.CA, c.CA), firstOf(out.Token, c.Token)
	return out, nil
}

// choose returns the context with the name that the caller gives, or the current one if it may
// be used for the servers. Its name is "" if there is none.
func (s Store) choose(named string, servers []string) (string, Context, error) {
	if named != "" {
		c, err := s.Get(named)
		return named, c, err
	}
	name, err := s.Current()
	if err != nil || name == "" {
		return "", Context{}, err
	}
	c, err := s.Get(name)
	switch {
	case len(servers) > 0 && (err != nil || !c.has(servers)):
		return "", Context{}, nil //nolint:nilerr // of another cluster, or unreadable: the token stays here
	case errors.Is(err, ErrNone): // removed since
		return "", Context{}, fmt.Errorf("%w; choose another one with osqueue context use", err)
	}
	return name, c, err
}

// has reports whether all of the servers are servers of the context.
func (c Context) has(servers []string) bool {
	for _, server := range servers {
		if !slices.ContainsFunc(c.Servers, func(own string) bool { return bare(own) == bare(server) }) {
			return false
		}
	}
	return true
}

// bare returns a server without its scheme.
func bare(server string) string {
	_, rest, ok := strings.Cut(server, "://")
	if !ok {
		rest = server
	}
	return strings.TrimRight(strings.ToLower(strings.TrimSpace(rest)), "/")
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' })
}
