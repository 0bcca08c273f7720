package gcs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	gcs "cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"osqueue/storage"
	"osqueue/storage/internal/remote"
)

const (
	// readAttempts bounds the attempts of a read, a listing or a delete.
	readAttempts = 4
	// idleConnections is the number of connections that stay open between requests.
	idleConnections = 16
)

// Bucket is a prefix of a GCS bucket.
type Bucket struct {
	location  remote.Location
	transport *http.Transport
	http      *http.Client
	client    *gcs.Client
	handle    *gcs.BucketHandle
	key       string    // of the encryption at rest; "": the bucket's own setting
	base      string    // the address of the store
	keys      *rotating // nil: an emulator, without credentials
}

var (
	_ storage.Bucket   = (*Bucket)(nil)
	_ storage.Streamer = (*Bucket)(nil)
	_ storage.Signer   = (*Bucket)(nil)
)

// Open opens the bucket that a gs:// URL stands for; doc.go describes the URL.
// It looks for credentials, and sends nothing to the store.
func Open(ctx context.Context, u *url.URL) (*Bucket, error) {
	location, err := remote.ParseLocation(u, "endpoint", "kms-key")
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = idleConnections
	transport.DisableCompression = true // the CRC of an object is that of the bytes that are sent
	base, sender := strings.TrimRight(location.Params["endpoint"], "/"), http.RoundTripper(transport)
	if base == "" {
		// An emulator needs no credentials. To look for them takes seconds where there is no
		// metadata server.
		credentials := &rotating{next: transport}
		if base, err = credentials.store(ctx); err != nil {
			return nil, fmt.Errorf("bucket %s: %w", location, err)
		}
		sender = credentials
	}
	return open(ctx, location, base, sender, transport)
}

// open makes the client of the store at base.
func open(ctx context.Context, l remote.Location, base string, sender http.RoundTripper, t *http.Transport) (*Bucket, error) {
	sends := &http.Client{
		Transport:     sender,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	client, err := gcs.NewClient(context.WithoutCancel(ctx),
		gcs.WithJSONReads(), gcs.WithDisabledClientMetrics(),
		option.WithEndpoint(base+"/storage/v1/"),
		option.WithoutAuthentication(), // the sender authorizes requests
		option.WithHTTPClient(sends))
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", l, err)
	}
	client.SetRetry(gcs.WithPolicy(gcs.RetryAlways), gcs.WithMaxAttempts(readAttempts))
	keys, _ := sender.(*rotating)
	return &Bucket{
		location: l, transport: t, http: sends, client: client, handle: client.Bucket(l.Bucket), key: l.Params["kms-key"], base: base, keys: keys,
	}, nil
}

// Close implements storage.Bucket.
func (b *Bucket) Close() error {
	defer b.transport.CloseIdleConnections()
	return b.client.Close()
}

func (b *Bucket) object(key string) *gcs.ObjectHandle {
	return b.handle.Object(b.location.Name(key))
}

// statusOf returns the HTTP status behind err, or 0 if there was no answer.
func statusOf(err error) int {
	if api, ok := errors.AsType[*googleapi.Error](err); ok {
		return api.Code
	}
	return 0
}

// absent reports whether err is GCS saying that there is no such object. Other
// servers' 404 pages do not count.
func absent(err error) bool {
	if !errors.Is(err, gcs.ErrObjectNotExist) {
		return false
	}
	api, ok := errors.AsType[*googleapi.Error](err)
	return !ok || !strings.HasPrefix(strings.TrimSpace(api.Body), "<") && !noBucket(err)
}

func noBucket(err error) bool {
	api, ok := errors.AsType[*googleapi.Error](err)
	return errors.Is(err, gcs.ErrBucketNotExist) ||
		ok && api.Code == http.StatusNotFound && strings.Contains(api.Error(), "bucket does not exist")
}

// explain adds to err what its reader should know.
func (b *Bucket) explain(op, key string, err error) error {
	switch status := statusOf(err); {
	case status == http.StatusTooManyRequests:
		err = fmt.Errorf("%w: %w", storage.ErrThrottled, err)
	case noBucket(err):
		err = fmt.Errorf("bucket %q does not exist; create it first: %w", b.location.Bucket, err)
	case unauthorized(status):
		err = fmt.Errorf("the store refused the credentials, or they do not allow this operation: %w", err)
	}
	return fmt.Errorf("%s %q in %s: %w", op, key, b.location, err)
}
