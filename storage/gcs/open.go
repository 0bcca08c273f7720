package gcs

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	gcs "cloud.google.com/go/storage"
	"google.golang.org/api/option"

	"osqueue/storage"
	"osqueue/storage/internal/remote"
)

// readAttempts bounds the client's retries of reads, listings and deletes.
const readAttempts = 4

// Bucket is a prefix of a GCS bucket.
type Bucket struct {
	location remote.Location
	client   *gcs.Client
	handle   *gcs.BucketHandle
}

var _ storage.Bucket = (*Bucket)(nil)

// Open opens the bucket that a gs:// URL stands for; doc.go describes the URL.
// It looks for credentials, and sends nothing to the store.
func Open(ctx context.Context, u *url.URL) (*Bucket, error) {
	location, err := remote.ParseLocation(u, "endpoint")
	if err != nil {
		return nil, err
	}
	options := []option.ClientOption{gcs.WithJSONReads(), gcs.WithDisabledClientMetrics()}
	if endpoint := location.Params["endpoint"]; endpoint != "" {
		options = append(options,
			option.WithEndpoint(strings.TrimRight(endpoint, "/")+"/storage/v1/"),
			// Otherwise it looks for credentials, in files and at the metadata server
			// of a cloud, which takes seconds where there is none, and uses none.
			option.WithoutAuthentication(),
			option.WithHTTPClient(&http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}))
	}
	// The client keeps its context for renewing credentials, as long as it lives.
	client, err := gcs.NewClient(context.WithoutCancel(ctx), options...)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", location, err)
	}
	client.SetRetry(gcs.WithPolicy(gcs.RetryAlways), gcs.WithMaxAttempts(readAttempts))
	return &Bucket{location: location, client: client, handle: client.Bucket(location.Bucket)}, nil
}

// Close implements storage.Bucket.
func (b *Bucket) Close() error { return b.client.Close() }

func (b *Bucket) object(key string) *gcs.ObjectHandle {
	return b.handle.Object(b.location.Name(key))
}
