package s3

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
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
