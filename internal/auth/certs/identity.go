package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// Files names the files of an identity.
type Files struct {
	CA   string // the CA's certificates
	Cert string // this process's certificate
	Key  string // its private key
}

// lookAgain is the least time between two looks at the files.
const lookAgain = 5 * time.Second

// Identity is the certificate of a running process, and the CA that it trusts. It looks at
// its files when a connection is made, and reads them again if they have changed, so it
// needs no goroutine. It is safe for concurrent use.
type Identity struct {
	files  Files
	report func(error) // as in Load, once for each reason
	now    func() time.Time

	mu     sync.Mutex
	looked time.Time
	stamp  stamp
	loaded material
	failed string // the error that was reported last
}

// stamp identifies the versions of files.
type stamp [3]struct {
	modified time.Time
	size     int64
}

// material is the content of the files.
type material struct {
	subject Subject
	pair    tls.Certificate
	roots   *x509.CertPool
}

// Load reads an identity. report receives the errors of later changes of the files, and nil when changed
// files are in use; it must not block.
func Load(files Files, report func(error)) (*Identity, error) {
	i := &Identity{files: files, report: report, now: time.Now}
	if err := files.finish(); err != nil {
		return nil, err
	}
	s, err := i.look()
	if err != nil {
		return nil, err
	}
	m, err := i.read()
	if err != nil {
		return nil, err
	}
	i.looked, i.stamp, i.loaded = i.now(), s, m
	return i, nil
}

// look returns the stamp of the files.
func (i *Identity) look() (s stamp, err error) {
	for n, path := range []string{i.files.CA, i.files.Cert, i.files.Key} {
		info, err := os.Stat(path)
		if err != nil {
			return s, err
		}
		s[n].modified, s[n].size = info.ModTime(), info.Size()
	}
	return s, nil
}

// read reads and checks the files.
func (i *Identity) read() (m material, err error) {
	ca, err := ReadList(i.files.CA)
	if err != nil {
		return m, err
	}
	m.roots = Pool(ca)
	cert, err := readFile(i.files.Cert)
	if err != nil {
		return m, err
	}
	key, err := readFile(i.files.Key)
	if err != nil {
		return m, err
	}
	if m.pair, err = tls.X509KeyPair(cert, key); err != nil {
		return m, fmt.Errorf("%s and %s: %w", i.files.Cert, i.files.Key, err)
	}
	own := m.pair.Leaf
	if m.subject, err = SubjectOf(own); err != nil {
		return m, fmt.Errorf("%s: %w", i.files.Cert, err)
	}
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if _, err = own.Verify(x509.VerifyOptions{Roots: m.roots, KeyUsages: usage, CurrentTime: i.now()}); err != nil {
		return m, fmt.Errorf("%s: %w; issue it again with: osqueue cert renew", i.files.Cert, err)
	}
	return m, nil
}

// current returns the content of the files, which it reads again if they have changed.
func (i *Identity) current() material {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.now().Sub(i.looked) < lookAgain {
		return i.loaded
	}
	i.looked = i.now()
	s, err := i.look()
	if err == nil && s == i.stamp {
		return i.loaded
	}
	m := i.loaded
	if err == nil {
		m, err = i.read()
	}
	// The CA may be another one, with another cluster in its certificates.
	if was := i.loaded.subject; err == nil && (m.subject.Kind != was.Kind || m.subject.Name != was.Name) {
		err = fmt.Errorf("%s: it is the certificate of %s, and this process is %s", i.files.Cert, m.subject, was)
	}
	if err != nil { // perhaps only one of the files is replaced yet: look again next time
		if why := err.Error(); why != i.failed {
			i.failed = why
			i.report(fmt.Errorf("the changed certificates cannot be used, the previous ones stay in use: %w", err))
		}
		return i.loaded
	}
	i.stamp, i.loaded, i.failed = s, m, ""
	i.report(nil)
	return m
}

// Subject returns what this process's certificate authenticates.
func (i *Identity) Subject() Subject { return i.current().subject }

// Certificate returns this process's certificate.
func (i *Identity) Certificate() *x509.Certificate { return i.current().pair.Leaf }

// Refresh makes the next use look at the files.
func (i *Identity) Refresh() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.looked = time.Time{}
}

// Expires returns the end of this process's certificate.
func (i *Identity) Expires() time.Time { return i.current().pair.Leaf.NotAfter }

// config returns the settings that both ends of a connection have in common.
func (m material) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{m.pair}}
}

// Server returns the TLS configuration of a listener. clients says whether a client must
// show a certificate, verify (if not nil) checks the connection after that, and protocols
// are those of ALPN.
func (i *Identity) Server(clients tls.ClientAuthType, verify func(tls.ConnectionState) error, protocols ...string) *tls.Config {
	each := func(*tls.ClientHelloInfo) (*tls.Config, error) {
		m := i.current()
		c := m.config()
		c.ClientAuth, c.ClientCAs, c.VerifyConnection, c.NextProtos = clients, m.roots, verify, protocols
		// A resumed session would be trusted by a CA or a certificate that has been replaced.
		c.SessionTicketsDisabled = true
		return c, nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: protocols, GetConfigForClient: each}
}

// handshakeTimeout bounds a TLS handshake.
const handshakeTimeout = 3 * time.Second

// errNotANode means that the other end has a valid certificate of something else.
var errNotANode = errors.New("its certificate is not that of a node")

// ToNode makes conn a TLS connection to the node at address, of which it closes conn if
// that fails. The node's certificate must name the host in address.
func (i *Identity) ToNode(ctx context.Context, conn net.Conn, address string, protocols ...string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	m := i.current()
	c := m.config()
	c.RootCAs, c.ServerName, c.NextProtos = m.roots, host, protocols
	c.VerifyConnection = VerifyNode
	secured := tls.Client(conn, c)
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("TLS with the node at %s: %w", address, err), conn.Close())
	}
	return secured, nil
}

// VerifyNode refuses connections whose other end is not a node. It is for
// tls.Config.VerifyConnection, after the certificate itself was verified.
func VerifyNode(state tls.ConnectionState) error {
	if s, ok := PeerOf(&state); !ok || s.Kind != Node {
		return errNotANode
	}
	return nil
}
