package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"osqueue/internal/host"
)

// The names of a CA's files in its directory.
const (
	CAFile    = "ca.crt"
	caKeyFile = "ca.key"
)

// Default lifetimes of certificates.
const (
	CALifetime     = 10 * 365 * 24 * time.Hour
	NodeLifetime   = 90 * 24 * time.Hour
	ClientLifetime = 365 * 24 * time.Hour
)

// clockTolerance is how far a certificate's begin lies before its creation, because the
// clock of the machine that checks it may be behind.
const clockTolerance = 5 * time.Minute

// Authority is a certificate authority whose private key is at hand. Its methods are not
// safe for concurrent use.
type Authority struct {
	dir     string
	bundle  List // bundle[0] belongs to key
	key     *ecdsa.PrivateKey
	cluster string
}

// CreateAuthority makes a CA in dir, which it creates if needed. It refuses to replace an
// existing one. now is the time from which the CA is valid.
func CreateAuthority(dir string, lifetime time.Duration, now time.Time) (*Authority, error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, err
	}
	for _, name := range []string{CAFile, caKeyFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s exists: nodes that trust this CA would no longer trust each other; "+
				"to replace the CA without an interruption, give --rotate", filepath.Join(dir, name))
		}
	}
	id := make([]byte, 8)
	_, _ = rand.Read(id) // never fails
	a := &Authority{dir: dir, cluster: hex.EncodeToString(id)}
	if err := a.renew(lifetime, now); err != nil {
		return nil, err
	}
	return a, a.store()
}

// LoadAuthority reads the CA in dir.
func LoadAuthority(dir string) (*Authority, error) {
	certFile, keyFile := filepath.Join(dir, CAFile), filepath.Join(dir, caKeyFile)
	bundle, key, err := readAuthority(certFile, keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		if _, missing := os.Stat(filepath.Join(dir, CAFile)); missing != nil {
			return nil, fmt.Errorf("no CA in %s: make one with: osqueue cert ca --dir %s", dir, dir)
		}
	}
	if err != nil {
		return nil, err
	}
	if len(bundle) > 1 && key.PublicKey.Equal(bundle[1].PublicKey) {
		bundle = bundle[1:] // store was cut: the first certificate has no key
	}
	a, err := newAuthority(bundle, key, certFile, keyFile)
	if err != nil {
		return nil, err
	}
	a.dir = dir
	return a, nil
}

// LoadSigner reads a CA from the files of its certificates and of its key. Only SignNode and
// the methods without an effect may be called.
func LoadSigner(certFile, keyFile string) (*Authority, error) {
	bundle, key, err := readAuthority(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	return newAuthority(bundle, key, certFile, keyFile)
}

func readAuthority(certFile, keyFile string) (bundle List, key *ecdsa.PrivateKey, err error) {
	if bundle, err = ReadList(certFile); err != nil {
		return nil, nil, err
	}
	key, err = readKey(keyFile)
	return bundle, key, err
}

func newAuthority(bundle List, key *ecdsa.PrivateKey, certFile, keyFile string) (*Authority, error) {
	first := bundle[0]
	if !key.PublicKey.Equal(first.PublicKey) {
		return nil, fmt.Errorf("%s is not the key of the first certificate in %s", keyFile, certFile)
	}
	if !first.IsCA || len(first.URIs) != 1 || first.URIs[0].Host == "" {
		return nil, fmt.Errorf("%s was not made by osqueue cert ca", certFile)
	}
	return &Authority{bundle: bundle, key: key, cluster: first.URIs[0].Host}, nil
}

// Certificates returns the CA's certificates, the newest first.
func (a *Authority) Certificates() List { return a.bundle }

// Cluster returns the id that was made with the CA.
func (a *Authority) Cluster() string { return a.cluster }

// Rotate makes a new key and certificate of the CA. Both the new and the previous
// certificate are trusted until Retire. A second call before it is refused, because
// certificates that a dropped key has signed would become invalid.
func (a *Authority) Rotate(lifetime time.Duration, now time.Time) error {
	if len(a.bundle) > 1 {
		return errors.New("the CA is being replaced already: renew all certificates, then end it with --retire")
	}
	next := &Authority{dir: a.dir, bundle: a.bundle, cluster: a.cluster}
	if err := next.renew(lifetime, now); err != nil {
		return err
	}
	if err := next.store(); err != nil {
		return err
	}
	*a = *next
	return nil
}

// Retire ends the trust in all certificates of the CA but the newest. Certificates that the
// previous key has signed become invalid.
func (a *Authority) Retire() error {
	if len(a.bundle) == 1 {
		return errors.New("the CA has only one certificate: there is no previous one to remove")
	}
	a.bundle = a.bundle[:1]
	return a.store()
}

// renew puts a new certificate with a new key first.
func (a *Authority) renew(lifetime time.Duration, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	t := template("osqueue CA "+a.cluster, lifetime, now)
	t.URIs = []*url.URL{{Scheme: "spiffe", Host: a.cluster}}
	t.IsCA, t.BasicConstraintsValid, t.MaxPathLenZero = true, true, true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	c, err := sign(t, t, &key.PublicKey, key)
	if err != nil {
		return err
	}
	a.bundle, a.key = append(List{c}, a.bundle...), key
	return nil
}

// store writes the certificates and then the key. If it is cut between the two, the previous key
// is still there, and LoadAuthority drops the certificate that has none.
func (a *Authority) store() error {
	key, err := encodeKey(a.key)
	if err != nil {
		return err
	}
	if err := host.ReplaceFile(filepath.Join(a.dir, CAFile), Encode(a.bundle...), certMode); err != nil {
		return err
	}
	return host.ReplaceFile(filepath.Join(a.dir, caKeyFile), key, keyMode)
}

// Request describes a certificate to issue.
type Request struct {
	Kind     Kind
	Name     string
	Hosts    []string // host names and IP addresses by which others dial a node
	Lifetime time.Duration
}

// Issue makes a key and a certificate, and writes them to NAME.key and NAME.crt in the
// directory of the CA. It replaces files of the same subject only. The certificate ends at
// the latest when the CA's does.
func (a *Authority) Issue(r Request, now time.Time) (*x509.Certificate, error) {
	if err := a.check(r); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c, err := a.certify(r, &key.PublicKey, now)
	if err != nil {
		return nil, err
	}
	return c, a.storePair(r.Name, c, key)
}

// certify signs a certificate for a public key.
func (a *Authority) certify(r Request, public *ecdsa.PublicKey, now time.Time) (*x509.Certificate, error) {
	subject := Subject{Cluster: a.cluster, Kind: r.Kind, Name: r.Name}
	t := template(subject.String(), r.Lifetime, now)
	if end := a.bundle[0].NotAfter; t.NotAfter.After(end) {
		t.NotAfter = end
	}
	t.URIs = []*url.URL{subject.uri()}
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if r.Kind == Node {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, h := range r.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	return sign(t, a.bundle[0], public, a.key)
}

// check returns an error for a request that cannot be fulfilled.
func (a *Authority) check(r Request) error {
	if err := CheckName(r.Name); err != nil {
		return err
	}
	path := a.certPath(r.Name)
	if r.Name+".crt" == CAFile {
		return fmt.Errorf("name %q is the CA's: choose another name", r.Name)
	}
	if r.Kind == Node {
		if err := CheckHosts(r.Hosts); err != nil {
			return err
		}
	}
	if r.Lifetime <= 0 {
		return fmt.Errorf("lifetime %v: must be positive", r.Lifetime)
	}
	old, err := ReadList(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: move the file away, or choose another name", err)
	}
	if s, err := SubjectOf(old[0]); err != nil || s.Kind != r.Kind {
		return fmt.Errorf("%s is a certificate of %s: choose another name", path, describe(s, err))
	}
	return nil
}

// CheckHosts returns an error for hosts that a node's certificate cannot have.
func CheckHosts(hosts []string) error {
	if len(hosts) == 0 {
		return errors.New("a node needs the host names or IP addresses by which others dial it: give --host")
	}
	for _, h := range hosts {
		if net.ParseIP(h) == nil && !validHost(h) {
			return fmt.Errorf("host %q: must be a host name or an IP address, without a port", h)
		}
	}
	return nil
}

func describe(s Subject, err error) string {
	if err != nil {
		return "another program"
	}
	return s.String()
}

func (a *Authority) certPath(name string) string { return filepath.Join(a.dir, name+".crt") }

// storePair writes a key and its certificate. A process that reads them between the two
// writes finds that they do not match, keeps the pair that it has, and reads again.
func (a *Authority) storePair(name string, c *x509.Certificate, key *ecdsa.PrivateKey) error {
	data, err := encodeKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		host.ReplaceFile(filepath.Join(a.dir, name+".key"), data, keyMode),
		host.ReplaceFile(a.certPath(name), Encode(c), certMode),
	)
}

// Renew issues the certificate NAME again, with a new key and the same subject, hosts and
// length of life. lifetime, if positive, replaces the length of life.
func (a *Authority) Renew(name string, lifetime time.Duration, now time.Time) (*x509.Certificate, error) {
	list, err := ReadList(a.certPath(name))
	if err != nil {
		return nil, err
	}
	old := list[0]
	s, err := SubjectOf(old)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.certPath(name), err)
	}
	if s.Cluster != a.cluster {
		return nil, fmt.Errorf("%s is of cluster %s; this CA is of cluster %s", a.certPath(name), s.Cluster, a.cluster)
	}
	if lifetime <= 0 {
		lifetime = old.NotAfter.Sub(old.NotBefore) - clockTolerance
	}
	return a.Issue(Request{Kind: s.Kind, Name: s.Name, Hosts: HostsOf(old), Lifetime: lifetime}, now)
}

// HostsOf returns the host names and IP addresses of a certificate.
func HostsOf(c *x509.Certificate) []string {
	hosts := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}

// IssuedAt returns the time at which a certificate was issued. A certificate has its times in
// seconds. The serial number begins with the time in milliseconds, so that a certificate that
// is issued in the second of a revocation, after it, is not revoked. For other serial numbers
// the second counts.
func IssuedAt(c *x509.Certificate) time.Time {
	second := c.NotBefore.Add(clockTolerance)
	if c.SerialNumber != nil && c.SerialNumber.BitLen() <= serialBits {
		ms := time.UnixMilli(new(big.Int).Rsh(c.SerialNumber, serialRandom).Int64())
		if !ms.Before(second) && ms.Before(second.Add(time.Second)) {
			return ms
		}
	}
	return second
}

// A serial number is the time of issue in ms, followed by random bits.
const (
	serialRandom = 79
	serialBits   = serialRandom + 48
)

// newSerial returns a serial number for a certificate that is issued at a time.
func newSerial(issued time.Time) (*big.Int, error) {
	low, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialRandom))
	if err != nil {
		return nil, err
	}
	high := new(big.Int).Lsh(big.NewInt(issued.UnixMilli()&(1<<48-1)), serialRandom)
	return high.Or(high, low), nil
}

// RenewalDue reports whether a certificate is in the last third of its life, in which it is to
// be renewed.
func RenewalDue(c *x509.Certificate, now time.Time) bool {
	return !now.Before(RenewalAt(c))
}

// RenewalAt returns the time at which the last third of a certificate's life begins.
func RenewalAt(c *x509.Certificate) time.Time {
	issued := IssuedAt(c)
	return issued.Add(c.NotAfter.Sub(issued) / 3 * 2)
}

// template returns what all certificates have in common.
func template(name string, lifetime time.Duration, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: now.Add(-clockTolerance),
		NotAfter:  now.Add(lifetime),
	}
}

// sign makes a certificate with a serial number of its own.
func sign(t, parent *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := newSerial(t.NotBefore.Add(clockTolerance))
	if err != nil {
		return nil, err
	}
	t.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, t, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}
