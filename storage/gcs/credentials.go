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
	"golang.org/x/sync/singleflight"
)

// scope is the right that the driver asks for.
const scope = "https://www.googleapis.com/auth/devstorage.read_write"

// rotating authorizes requests by Google's default credentials. It finds them again after they were
// refused: a key that was replaced in its file would otherwise be used until the process is
// restarted. Safe for concurrent use.
type rotating struct {
	next   http.RoundTripper
	search singleflight.Group // a search may hang, in the network or in a program that the credentials name

	mu      sync.Mutex
	found   *auth.Credentials
	at      time.Time // when they were found
	refused bool      // they were refused since
}

// findPause is the least time between two searches. A refusal may have another cause than the
// credentials, and last.
const findPause = time.Second

// current returns the credentials to use. If they have to be found, it waits for that until ctx ends.
func (r *rotating) current(ctx context.Context) (*auth.Credentials, error) {
	if found := r.usable(); found != nil {
		return found, nil
	}
	select {
	case res := <-r.search.DoChan("", r.find):
		found, _ := res.Val.(*auth.Credentials)
		return found, res.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// usable returns the credentials if they need not be found again, or nil.
func (r *rotating) usable() *auth.Credentials {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused && time.Since(r.at) >= findPause {
		return nil
	}
	return r.found
}

// find finds the credentials, and returns the old ones while there are no others: the file is
// being replaced.
func (r *rotating) find() (any, error) {
	if found := r.usable(); found != nil { // another request has just found them
		return found, nil
	}
	found, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{scope}})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = time.Now()
	switch {
	case err == nil:
		r.found, r.refused = found, false
	case r.found == nil:
		return nil, err
	}
	return r.found, nil
}

// store returns the address of the store that the credentials are for.
func (r *rotating) store(ctx context.Context) (base string, err error) {
	found, err := r.current(ctx)
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
	c, err := r.current(ctx)
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
