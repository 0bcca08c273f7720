package gcs

import (
	"context"
	"net/http"
	"sync"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"
)

// rotating finds Google's default credentials, again after they were refused: a key that was
// replaced in its file would otherwise be used until the process is restarted. Safe for
// concurrent use.
type rotating struct {
	mu      sync.Mutex
	found   *auth.Credentials
	at      time.Time // when they were found
	refused bool      // they were refused since
}

// findPause is the least time between two searches. A refusal may have another cause than the
// credentials, and last.
const findPause = time.Second

// current returns the credentials to use.
func (r *rotating) current() (*auth.Credentials, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.found != nil && (!r.refused || time.Since(r.at) < findPause) {
		return r.found, nil
	}
	r.at = time.Now()
	found, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{scope}})
	switch {
	case err == nil:
		r.found, r.refused = found, false
	case r.found == nil:
		return nil, err
	}
	return r.found, nil // the old ones, while the file is being replaced
}

// token returns an access token and the project that pays; "" if the credentials name none.
func (r *rotating) token(ctx context.Context) (token *auth.Token, project string, err error) {
	c, err := r.current()
	if err != nil {
		return nil, "", err
	}
	if token, err = c.Token(ctx); err != nil {
		r.refuse()
		return nil, "", err
	}
	project, _ = c.QuotaProjectID(ctx) // credentials that cannot say it name none
	return token, project, nil
}

// refuse makes the next request find the credentials again.
func (r *rotating) refuse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = true
}

// unauthorized reports whether an answer refuses the credentials, or what they may do.
func unauthorized(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}
