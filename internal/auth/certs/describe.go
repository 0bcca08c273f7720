package certs

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// List is a list of certificates.
type List = []*x509.Certificate

// Description has the properties of a certificate that are shown to people.
type Description struct {
	File        string    `json:"file"`
	Subject     string    `json:"subject"`
	Cluster     string    `json:"cluster"`
	Hosts       []string  `json:"hosts,omitempty"`
	NotBefore   time.Time `json:"notBefore"`
	NotAfter    time.Time `json:"notAfter"`
	Fingerprint string    `json:"sha256"` // of the whole certificate, in hex
}

// Describe describes the certificates of one file.
func Describe(file string, list List) []Description {
	out := make([]Description, len(list))
	for i, c := range list {
		sum := sha256.Sum256(c.Raw)
		out[i] = Description{
			File: file, Subject: c.Subject.CommonName, Hosts: HostsOf(c),
			NotBefore: c.NotBefore, NotAfter: c.NotAfter, Fingerprint: hex.EncodeToString(sum[:]),
		}
		if len(c.URIs) == 1 {
			out[i].Cluster = c.URIs[0].Host
		}
		if s, err := SubjectOf(c); err == nil {
			out[i].Subject = s.String()
		}
	}
	return out
}

// Issued returns the names of the certificates in the CA's directory that are of its
// cluster.
func (a *Authority) Issued() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(a.dir, "*.crt"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, file := range files {
		list, err := ReadList(file)
		if err != nil {
			return nil, err
		}
		s, err := SubjectOf(list[0])
		if name := strings.TrimSuffix(filepath.Base(file), ".crt"); err == nil && s.Cluster == a.cluster && s.Name == name {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
