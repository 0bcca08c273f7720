package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"osqueue/internal/host"
)

// OpenKey reads the key in a file, or makes one that only the owner can read, so that a process
// that was cut asks for a certificate of the same key again. request is a certificate signing
// request in DER form. It names no subject: the cluster knows for whom the certificate is.
func OpenKey(path string) (key *ecdsa.PrivateKey, request []byte, err error) {
	if key, err = readKey(path); errors.Is(err, fs.ErrNotExist) {
		key, err = makeKey(path)
	}
	if err != nil {
		return nil, nil, err
	}
	request, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	return key, request, err
}

func makeKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	data, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return nil, err
	}
	return key, host.ReplaceFile(path, data, keyMode)
}

// nextSuffix ends the name of the file with a key whose certificate is not in use yet.
const nextSuffix = ".next"

// NextKey returns the key of the next certificate, and a request for it, as OpenKey does.
func (f Files) NextKey() (key *ecdsa.PrivateKey, request []byte, err error) {
	return OpenKey(f.Key + nextSuffix)
}

// Install replaces the certificate with one for NextKey. Load finishes an interrupted Install.
func (f Files) Install(c *x509.Certificate) error {
	if err := host.ReplaceFile(f.Cert, Encode(c), certMode); err != nil {
		return err
	}
	return f.finish()
}

// finish puts the next key in its place if the certificate is for it.
func (f Files) finish() error {
	next := f.Key + nextSuffix
	key, err := readKey(next)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	list, err := ReadList(f.Cert)
	if err != nil || !key.PublicKey.Equal(list[0].PublicKey) {
		return err
	}
	return os.Rename(next, f.Key)
}

// requestMax bounds a certificate signing request, in bytes.
const requestMax = 4 << 10

// ReadRequest returns the public key of a certificate signing request, in PKIX form, whose
// owner has proved to have the private key. Everything else in the request is ignored.
func ReadRequest(der []byte) (public []byte, err error) {
	if len(der) > requestMax {
		return nil, fmt.Errorf("the certificate request has %d bytes; at most %d are allowed", len(der), requestMax)
	}
	r, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fmt.Errorf("the certificate request: %w", err)
	}
	if _, err := readPublic(r.RawSubjectPublicKeyInfo); err != nil {
		return nil, err
	}
	if err := r.CheckSignature(); err != nil {
		return nil, fmt.Errorf("the certificate request: %w", err)
	}
	return r.RawSubjectPublicKeyInfo, nil
}

func readPublic(der []byte) (*ecdsa.PublicKey, error) {
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, err
	}
	ec, ok := key.(*ecdsa.PublicKey)
	if !ok || ec.Curve != elliptic.P256() {
		return nil, fmt.Errorf("the public key is of type %T; this program uses ECDSA with P-256", key)
	}
	return ec, nil
}

// SignNode issues the certificate of a node for a public key in PKIX form. The certificate
// counts as issued when it was requested: a request from before a revocation gives none that is
// valid after it.
func (a *Authority) SignNode(r Request, public []byte, requested time.Time) (*x509.Certificate, error) {
	key, err := readPublic(public)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(CheckName(r.Name), CheckHosts(r.Hosts)); err != nil {
		return nil, err
	}
	return a.certify(r, key, requested)
}

// Expected has the properties that a certificate of a node must have.
type Expected struct {
	Name   string
	Hosts  []string
	Public []byte // key in PKIX form
}

// Check returns an error unless a CA in roots has issued c for what is expected, and for
// nothing else.
func (e *Expected) Check(c *x509.Certificate, roots List, now time.Time) error {
	if err := verifies(roots, c, now); err != nil {
		return err
	}
	s, err := SubjectOf(c)
	if err != nil {
		return err
	}
	if s.Kind != Node || s.Name != e.Name {
		return fmt.Errorf("the certificate is of %s, not of node %s", s, e.Name)
	}
	if !bytes.Equal(c.RawSubjectPublicKeyInfo, e.Public) {
		return errors.New("the certificate is for another key")
	}
	have, want := HostsOf(c), slices.Clone(e.Hosts)
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) || c.IsCA {
		return fmt.Errorf("the certificate has the hosts %v, not %v", have, want)
	}
	return nil
}

// Pin is the SHA-256 of a CA's public key, by which a node that has no files yet knows the CA.
type Pin [sha256.Size]byte

// PinOf returns the pin of a certificate.
func PinOf(c *x509.Certificate) Pin { return sha256.Sum256(c.RawSubjectPublicKeyInfo) }

// WriteCA writes the certificates of a CA to a file, whose directory it creates if needed.
func WriteCA(file string, list List) error {
	if err := os.MkdirAll(filepath.Dir(file), dirMode); err != nil {
		return err
	}
	return host.ReplaceFile(file, Encode(list...), certMode)
}

// verifies returns an error unless roots verify the certificate of a node.
func verifies(roots List, c *x509.Certificate, now time.Time) error {
	pool := Pool(roots)
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if _, err := c.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{usage}, CurrentTime: now}); err != nil {
			return err
		}
	}
	return nil
}
