package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"osqueue/storage"
	"osqueue/storage/internal/remote"
)

// defaultPageSize is how many keys a listing asks for at a time; the most that
// S3 gives.
const defaultPageSize = 1000

// defaultRegion is the region that stores other than Amazon's expect in signatures.
const defaultRegion = "us-east-1"

// Bucket is a prefix of an S3 bucket.
type Bucket struct {
	location remote.Location
	client   *s3.Client
	http     *http.Client
	keys     *rotating
	pageSize int32

	encryption encryption // what every write asks for

	noBatches atomic.Bool // the store does not know DeleteObjects
}

var (
	_ storage.Bucket       = (*Bucket)(nil)
	_ storage.BatchDeleter = (*Bucket)(nil)
)

// SetPageSize sets the number of keys in an answer to a listing, so that tests can list in
// several requests. Call it before the bucket is used.
func (b *Bucket) SetPageSize(keys int32) { b.pageSize = keys }

// Open opens the bucket that an s3:// URL stands for; doc.go describes the URL.
// It reads the SDK's configuration and sends nothing to the store.
func Open(ctx context.Context, u *url.URL) (*Bucket, error) {
	location, err := remote.ParseLocation(u, "endpoint", "region", "sse", "sse-key")
	if err != nil {
		return nil, err
	}
	sse, err := encryptionOf(location)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", location, err)
	}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: read the AWS configuration: %w", location, err)
	}
	endpoint := location.Params["endpoint"]
	if cfg.Region, err = region(location, cfg.Region); err != nil {
		return nil, err
	}
	b := &Bucket{location: location, encryption: sse, http: httpClient(cfg), keys: rotatingFrom(cfg), pageSize: defaultPageSize}
	b.client = s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.HTTPClient, o.Credentials = b.http, b.keys
		if endpoint != "" {
			o.BaseEndpoint, o.UsePathStyle = aws.String(endpoint), true
			// Few other stores know Amazon's newer checksums.
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		}
	})
	return b, nil
}

func region(l remote.Location, configured string) (string, error) {
	switch {
	case l.Params["region"] != "":
		return l.Params["region"], nil
	case configured != "":
		return configured, nil
	case l.Params["endpoint"] != "":
		return defaultRegion, nil
	}
	return "", fmt.Errorf("bucket %s: the region is unknown: write %s?region=NAME or set AWS_REGION", l, l)
}

// httpClient returns a client of this Bucket's own, so that Close can end its
// connections. It keeps what the configuration says of certificates and
// follows no redirects: a conditional write must not be sent twice.
func httpClient(cfg aws.Config) *http.Client {
	buildable, ok := cfg.HTTPClient.(*awshttp.BuildableClient)
	if !ok {
		buildable = awshttp.NewBuildableClient()
	}
	return &http.Client{
		Transport:     buildable.GetTransport(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Close implements storage.Bucket.
func (b *Bucket) Close() error {
	b.http.CloseIdleConnections()
	return nil
}

// Answers that look like success and cannot be from a store that this driver
// can use.
var (
	errNoETag    = errors.New("the answer has no ETag: is this an S3 endpoint?")
	errNoListing = errors.New("the answer is not a listing: is this an S3 endpoint?")
)
