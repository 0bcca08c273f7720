package gcs

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"osqueue/storage"
)

// statusOf returns the HTTP status behind err, or 0 if there was no answer.
func statusOf(err error) int {
	if r, ok := errors.AsType[*refused](err); ok {
		return r.status
	}
	return 0
}

// absent reports whether err is GCS saying that there is no such object. Other
// servers' 404 pages do not count.
func absent(err error) bool {
	r, ok := errors.AsType[*refused](err)
	return ok && r.status == http.StatusNotFound && !strings.HasPrefix(strings.TrimSpace(r.body), "<") && !noBucket(err)
}

func noBucket(err error) bool {
	r, ok := errors.AsType[*refused](err)
	return ok && r.status == http.StatusNotFound && strings.Contains(r.body, "bucket does not exist")
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
