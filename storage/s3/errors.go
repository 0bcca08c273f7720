package s3

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	smithy "github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"osqueue/storage"
)

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
