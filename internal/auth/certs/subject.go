package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Kind is the kind of a subject.
type Kind string

// The kinds of subjects.
const (
	Node   Kind = "node"
	Client Kind = "client"
)

// Subject is a node or client that a certificate authenticates.
type Subject struct {
	Cluster string // the id that was made with the CA
	Kind    Kind
	Name    string
}

// nameMax bounds the length of a name in bytes.
const nameMax = 63

// CheckName returns an error for a name that cannot stand in a URI or a file name as it is.
func CheckName(name string) error {
	valid := name != "" && len(name) <= nameMax && name[0] != '.'
	for i := range len(name) {
		valid = valid && (isNameByte(name[i]) || name[i] == '.')
	}
	if !valid {
		return fmt.Errorf("name %q: must be 1 to %d letters, digits, '.', '_' or '-', and must not begin with '.'", name, nameMax)
	}
	return nil
}

// uri returns the URI of a subject.
func (s Subject) uri() *url.URL {
	return &url.URL{Scheme: "spiffe", Host: s.Cluster, Path: "/" + string(s.Kind) + "/" + s.Name}
}

// String returns the kind and the name, as in "node n1".
func (s Subject) String() string { return string(s.Kind) + " " + s.Name }

// errNoSubject means that a certificate was made for something else than this program.
var errNoSubject = errors.New("the certificate names neither a node nor a client of osqueue")

// SubjectOf returns what a certificate authenticates. It does not check who has signed the
// certificate.
func SubjectOf(c *x509.Certificate) (Subject, error) {
	if len(c.URIs) != 1 || c.URIs[0].Scheme != "spiffe" {
		return Subject{}, errNoSubject
	}
	u := c.URIs[0]
	kind, name, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	s := Subject{Cluster: u.Host, Kind: Kind(kind), Name: name}
	if s.Kind != Node && s.Kind != Client || CheckName(name) != nil {
		return Subject{}, errNoSubject
	}
	return s, nil
}

// PeerOf returns what the other end of a TLS connection has proved to be. ok is false if it
// has shown no certificate that was verified.
func PeerOf(state *tls.ConnectionState) (s Subject, ok bool) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return Subject{}, false
	}
	s, err := SubjectOf(state.VerifiedChains[0][0])
	return s, err == nil
}

// validHost reports whether h can be a host name. It may begin with "*." and end with a dot.
func validHost(h string) bool {
	h = strings.TrimSuffix(strings.TrimPrefix(h, "*."), ".")
	if h == "" || len(h) > 253 {
		return false
	}
	for label := range strings.SplitSeq(h, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if !isNameByte(label[i]) {
				return false
			}
		}
	}
	return true
}

// isNameByte reports whether c is a letter, a digit, '-' or '_'.
func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}
