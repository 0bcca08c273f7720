package gcs

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	gcs "cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"

	"osqueue/storage"
)

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
