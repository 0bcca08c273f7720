package gcs

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"
)

// scope is the right that the driver asks for.
const scope = "https://www.googleapis.com/auth/devstorage.read_write"

// rotating authorizes requests by Google's default credentials. It finds them again after they were
// refused: a key that was replaced in its file would otherwise be used until the process is
// restarted. Safe for concurrent use.
type rotating struct {
	next http.RoundTripper

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

// store returns the address of the store that the credentials are for.
func (r *rotating) store(ctx context.Context) (base string, err error) {
	found, err := r.current()
	if err != nil {
		return "", fmt.Errorf("find credentials: %w", err)
	}
	universe, err := found.UniverseDomain(ctx)
	if err != nil {
		return "", fmt.Errorf("find the domain of the credentials: %w", err)
	}
	return "https://storage." + universe, nil
}

// RoundTrip implements http.RoundTripper: it adds the access token, and the project that pays if the
// credentials name one.
func (r *rotating) RoundTrip(req *http.Request) (*http.Response, error) {
	token, project, err := r.token(req.Context())
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, fmt.Errorf("get an access token: %w", err)
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", cmp.Or(token.Type, "Bearer")+" "+token.Value)
	if project != "" {
		req.Header.Set("X-Goog-User-Project", project)
	}
	res, err := r.next.RoundTrip(req)
	if err == nil && unauthorized(res.StatusCode) {
		r.refuse()
	}
	return res, err
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
