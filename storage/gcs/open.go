package gcs

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"osqueue/storage"
	"osqueue/storage/internal/remote"
)

// scope is the right that the driver asks for.
const scope = "https://www.googleapis.com/auth/devstorage.read_write"

// Bucket is a prefix of a GCS bucket.
type Bucket struct {
	location remote.Location
	client   *client
}

var _ storage.Bucket = (*Bucket)(nil)

// Open opens the bucket that a gs:// URL stands for; doc.go describes the URL.
// It looks for credentials, and sends nothing to the store.
func Open(ctx context.Context, u *url.URL) (*Bucket, error) {
	location, err := remote.ParseLocation(u, "endpoint", "kms-key")
	if err != nil {
		return nil, err
	}
	c := &client{
		bucket: location.Bucket,
		key:    location.Params["kms-key"],
		base:   strings.TrimRight(location.Params["endpoint"], "/"),
		http: &http.Client{
			Transport:     newTransport(),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if c.base == "" {
		// An emulator needs no credentials. To look for them takes seconds where there is no
		// metadata server.
		if err := c.findCredentials(ctx); err != nil {
			return nil, fmt.Errorf("bucket %s: %w", location, err)
		}
	}
	return &Bucket{location: location, client: c}, nil
}

// findCredentials finds the credentials and sets the address of the store that they are for.
func (c *client) findCredentials(ctx context.Context) error {
	c.credentials = &rotating{}
	found, err := c.credentials.current()
	if err != nil {
		return fmt.Errorf("find credentials: %w", err)
	}
	universe, err := found.UniverseDomain(ctx)
	if err != nil {
		return fmt.Errorf("find the domain of the credentials: %w", err)
	}
	c.base = "https://storage." + universe
	return nil
}

// newTransport returns a transport of the Bucket's own, so that Close can end its connections.
func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = idleConnections
	t.DisableCompression = true // the CRC of an object is that of the bytes that are sent
	return t
}

// idleConnections is the number of connections that stay open between requests.
const idleConnections = 16

// Close implements storage.Bucket.
func (b *Bucket) Close() error {
	b.client.http.CloseIdleConnections()
	return nil
}
