package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithy "github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"osqueue/storage"
	"osqueue/storage/internal/remote"
)

// defaultPageSize is how many keys a listing asks for at a time; the most that
// S3 gives.
const defaultPageSize = 1000

// directorySuffix ends the names of directory buckets, and of no others.
const directorySuffix = "--x-s3"

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
	_ storage.Streamer     = (*Bucket)(nil)
	_ storage.Signer       = (*Bucket)(nil)
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
	if strings.HasSuffix(location.Bucket, directorySuffix) {
		return nil, fmt.Errorf("bucket %s: a directory bucket (S3 Express One Zone) lists keys without an order, so garbage would "+
			"stay in it: give a general purpose bucket", location)
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

// rotating is a provider of credentials that reads the SDK's configuration again after the
// store has refused its credentials: the SDK itself reads keys in files only once, so a key
// that was replaced there would be refused until the process is restarted. Safe for
// concurrent use.
type rotating struct {
	load func(context.Context) (aws.CredentialsProvider, error)

	mu       sync.Mutex
	provider aws.CredentialsProvider
	read     time.Time // when provider was made
	refused  bool      // the store has refused credentials since
}

// rereadPause is the least time between two reads of the configuration. A refusal may have
// another cause than the credentials, and last.
const rereadPause = time.Second

// rotatingFrom returns the provider of a configuration that was just loaded.
func rotatingFrom(cfg aws.Config) *rotating {
	return &rotating{provider: cfg.Credentials, read: time.Now(), load: func(ctx context.Context) (aws.CredentialsProvider, error) {
		cfg, err := config.LoadDefaultConfig(ctx)
		return cfg.Credentials, err
	}}
}

// Retrieve implements aws.CredentialsProvider.
func (r *rotating) Retrieve(ctx context.Context) (aws.Credentials, error) {
	c, err := r.current(ctx).Retrieve(ctx)
	if err != nil {
		r.refuse()
	}
	return c, err
}

// current returns the provider to use: a new one, with a cache of its own, if the store has
// refused the credentials of the last one.
func (r *rotating) current(ctx context.Context) aws.CredentialsProvider {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.refused || time.Since(r.read) < rereadPause {
		return r.provider
	}
	r.read = time.Now()
	if p, err := r.load(ctx); err == nil && p != nil { // a file that is being replaced may be unreadable
		r.provider, r.refused = p, false
	}
	return r.provider
}

// refuse makes the next Retrieve read the configuration again.
func (r *rotating) refuse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = true
}

// badCredentials are the error codes, in addition to the statuses 401 and 403, of a store
// that refuses the credentials of a request.
var badCredentials = []string{
	"ExpiredToken", "ExpiredTokenException", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId",
	"InvalidClientTokenId", "SignatureDoesNotMatch", "AuthFailure", "InvalidSecurity",
}

// unauthorized reports whether the store refused the credentials, or what they may do.
func (a answer) unauthorized() bool {
	return a.status == http.StatusUnauthorized || a.status == http.StatusForbidden || slices.Contains(badCredentials, a.code)
}

// answer holds the store's answer as far as an error of the SDK has it.
type answer struct {
	status int    // 0: there was no answer
	code   string // S3's error code; may be empty
}

func answerOf(err error) answer {
	var a answer
	if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		a.status = response.HTTPStatusCode()
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		a.code = api.ErrorCode()
	}
	return a
}

// refused reports whether the condition of a write did not hold.
func (a answer) refused() bool {
	switch a.status {
	case http.StatusPreconditionFailed, http.StatusConflict:
		return true
	case http.StatusNotFound:
		return a.code == "NoSuchKey"
	default:
		return false
	}
}

// throttled reports whether a rate limit refused the request before anything
// was done. A bare 503 says nothing of the kind.
func (a answer) throttled() bool {
	if a.status == http.StatusTooManyRequests {
		return true
	}
	_, known := retry.DefaultThrottleErrorCodes[a.code]
	return known && (a.status >= 400 || a.status == 0) ||
		slices.Contains([]string{"SlowDownWrite", "SlowDownRead", "TooManyRequests"}, a.code)
}

// noSuchOperation reports whether the store does not know an operation, or not in this form.
func (a answer) noSuchOperation() bool {
	switch a.status {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusLengthRequired, http.StatusNotImplemented:
		return !a.throttled()
	default:
		return false
	}
}

// explain adds to err what its reader should know.
func (b *Bucket) explain(op, key string, err error) error {
	a := answerOf(err)
	switch {
	case a.throttled():
		err = fmt.Errorf("%w: %w", storage.ErrThrottled, err)
	case a.code == "NoSuchBucket":
		err = fmt.Errorf("bucket %q does not exist; create it first: %w", b.location.Bucket, err)
	case a.unauthorized():
		b.keys.refuse()
		err = fmt.Errorf("the store refused the credentials, or they do not allow this operation: %w", err)
	case a.status == http.StatusMovedPermanently || a.status == http.StatusTemporaryRedirect:
		err = fmt.Errorf("the bucket is in another region: give it as ?region=NAME: %w", err)
	}
	return fmt.Errorf("%s %q in %s: %w", op, key, b.location, err)
}
