package certs

import (
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"osqueue/internal/durable"
)

// endorsementFile has the endorsement of the newest certificate of the CA. Its name does not end
// like that of a certificate, because no program trusts it.
const endorsementFile = "ca.endorsement"

// Bundle is the CA's certificates for a node that trusts one of them already.
type Bundle struct {
	CA string `json:"ca"` // PEM, the newest first
	// Endorsement is a certificate (DER) of the newest CA's key which the previous CA has signed; it
	// may be absent if the node trusts all certificates of the bundle.
	Endorsement []byte `json:"endorsement,omitzero"`
}

// endorse certifies a new CA's key with the present one.
func (a *Authority) endorse(next *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, error) {
	t := template("osqueue CA "+a.cluster, time.Until(next.NotAfter), next.NotBefore.Add(clockTolerance))
	t.URIs = next.URIs
	t.IsCA, t.BasicConstraintsValid, t.MaxPathLenZero = true, true, true
	c, err := sign(t, a.bundle[0], &key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return c.Raw, nil
}

// Bundle returns the certificates of the CA for the nodes. With newestOnly the previous
// certificate is left out, as Retire does.
func (a *Authority) Bundle(newestOnly bool) (Bundle, error) {
	if newestOnly {
		return Bundle{CA: string(Encode(a.bundle[:1]))}, nil
	}
	b := Bundle{CA: string(Encode(a.bundle))}
	data, err := os.ReadFile(filepath.Join(a.dir, endorsementFile))
	if errors.Is(err, fs.ErrNotExist) { // of a CA that was never replaced, or by an older release
		return b, nil
	}
	b.Endorsement = data
	return b, err
}

// storeEndorsement writes the endorsement of the newest certificate.
func (a *Authority) storeEndorsement(der []byte) error {
	return durable.Replace(filepath.Join(a.dir, endorsementFile), der, certMode)
}

// bundleMax bounds the certificates of a CA.
const bundleMax = 2

// Accept returns the certificates of a bundle for a node that trusts the CA in have and has the
// certificate own. It refuses a certificate that the CA in have has not endorsed, a bundle without
// the newest certificate in have, and one that does not verify own.
func (b *Bundle) Accept(have List, own *x509.Certificate, now time.Time) (List, error) {
	next, err := Parse([]byte(b.CA))
	if err != nil {
		return nil, fmt.Errorf("the CA: %w", err)
	}
	if len(next) > bundleMax {
		return nil, fmt.Errorf("the CA has %d certificates; at most %d are allowed: the present one, and the one before", len(next), bundleMax)
	}
	for _, c := range next {
		if has(have, c) {
			continue
		}
		if err := b.endorsed(c, have, now); err != nil {
			return nil, fmt.Errorf("a certificate of the CA is not accepted: %w", err)
		}
	}
	if !has(next, have[0]) {
		return nil, errors.New("the newest certificate of the CA that this node trusts is missing")
	}
	if err := verifies(next, own, now); err != nil {
		return nil, fmt.Errorf("the certificate of this node was issued by another CA (osqueue cert trust --renew issues a new one): %w", err)
	}
	return next, nil
}

// has reports whether a list has a certificate.
func has(list List, c *x509.Certificate) bool { return slices.ContainsFunc(list, c.Equal) }

// endorsed returns an error unless c is a CA of the same cluster as have, whose key the CA in have
// has certified.
func (b *Bundle) endorsed(c *x509.Certificate, have List, now time.Time) error {
	if len(b.Endorsement) == 0 {
		return errors.New("the present CA has not endorsed it: if it was made by an older release, copy ca.crt to the nodes by hand")
	}
	e, err := x509.ParseCertificate(b.Endorsement)
	if err != nil {
		return fmt.Errorf("the endorsement: %w", err)
	}
	switch {
	case !c.IsCA || len(c.URIs) != 1 || len(have[0].URIs) != 1 || c.URIs[0].Host != have[0].URIs[0].Host:
		return errors.New("it is not a CA of this cluster")
	case c.CheckSignatureFrom(c) != nil || now.Before(c.NotBefore) || !now.Before(c.NotAfter):
		return errors.New("its signature is wrong, or it is not valid now")
	case PinOf(e) != PinOf(c) || len(e.URIs) != 1 || e.URIs[0].Host != c.URIs[0].Host || !e.IsCA:
		return errors.New("the endorsement is for another CA")
	case now.Before(e.NotBefore) || !now.Before(e.NotAfter):
		return errors.New("the endorsement is not valid now")
	}
	for _, old := range have {
		if e.CheckSignatureFrom(old) == nil && now.Before(old.NotAfter) {
			return nil
		}
	}
	return errors.New("the CA that this node trusts has not endorsed it")
}

// verifies returns an error unless roots verify the certificate of a node.
func verifies(roots List, c *x509.Certificate, now time.Time) error {
	pool := x509.NewCertPool()
	for _, root := range roots {
		pool.AddCert(root)
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if _, err := c.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{usage}, CurrentTime: now}); err != nil {
			return err
		}
	}
	return nil
}

// IssuedBy reports whether a CA has signed c.
func IssuedBy(c, ca *x509.Certificate) bool { return c.CheckSignatureFrom(ca) == nil }
