package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// The types of PEM blocks.
const (
	certBlock = "CERTIFICATE"
	keyBlock  = "PRIVATE KEY"
)

// fileMax bounds the size of a file that is read, in bytes.
const fileMax = 1 << 20

// readFile reads a small file.
func readFile(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err == nil && len(data) > fileMax {
		err = fmt.Errorf("%s: has %d bytes; a file of certificates has at most %d", path, len(data), fileMax)
	}
	return data, err
}

// Parse returns the certificates in PEM data, of which there must be one at
// least. Package pem skips a block that is damaged or cut, as in a file that another program is
// copying: Parse refuses it, because a process must not trust a part of the CA's certificates.
func Parse(data []byte) (List, error) {
	var out List
	blocks, rest := 0, data
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		blocks++
		if block.Type != certBlock {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	switch {
	case bytes.Count(data, []byte("-----BEGIN ")) != blocks || bytes.Contains(rest, []byte("-----")):
		return nil, errors.New("ends in the middle of a PEM block, or has a damaged one: copy the whole file")
	case len(out) == 0:
		return nil, errors.New("contains no certificate in PEM form")
	}
	return out, nil
}

// ReadList reads the certificates in a file. There is at least one if err is nil.
func ReadList(path string) (List, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	list, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// readKey reads a private key from a file.
func readKey(path string) (*ecdsa.PrivateKey, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != keyBlock {
		return nil, fmt.Errorf("%s: contains no private key in PEM form", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: contains a key of type %T; this program uses ECDSA", path, key)
	}
	return ec, nil
}

// Encode returns certificates in PEM form.
func Encode(list ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range list {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: c.Raw})...)
	}
	return out
}

// Pool returns certificates as the roots of a verification.
func Pool(list List) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range list {
		pool.AddCert(c)
	}
	return pool
}

// encodeKey returns a private key in PEM form.
func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

// Permissions of files: others may read certificates, but not keys.
const (
	certMode = 0o644
	keyMode  = 0o600
	dirMode  = 0o700
)
