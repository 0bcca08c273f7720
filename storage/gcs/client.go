package gcs

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/go-json-experiment/json"

	"osqueue/storage/internal/remote"
)

// client sends requests of the JSON API of Cloud Storage.
type client struct {
	http        *http.Client
	credentials *rotating // nil: an emulator
	base        string    // scheme and host of the store
	bucket      string
	key         string // of the encryption at rest; "": the bucket's own setting
}

const (
	// readAttempts bounds the attempts of a read, a listing or a delete.
	readAttempts = 4
	// answerMax bounds an answer that is no object, in bytes.
	answerMax = 16 << 20
	// errorMax bounds the part of a refusal that is read, in bytes.
	errorMax = 4 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// refused is an answer other than success.
type refused struct {
	status int
	body   string
}

func (e *refused) Error() string {
	var answer struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(e.body), &answer) == nil && answer.Error.Message != "" {
		return fmt.Sprintf("the store answered %d: %s", e.status, answer.Error.Message)
	}
	return fmt.Sprintf("the store answered %d: %.200q", e.status, e.body)
}

// object returns the URL path of an object, or of all objects if name is "".
func (c *client) object(name string) string {
	path := "/storage/v1/b/" + url.PathEscape(c.bucket) + "/o"
	if name != "" {
		path += "/" + url.PathEscape(name)
	}
	return path
}

// send sends one request. The caller closes the body of the answer, which is a success.
func (c *client) send(ctx context.Context, method, target, mediaType string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+target, body)
	if err != nil {
		return nil, err
	}
	if s, ok := body.(*sized); ok {
		req.ContentLength = int64(s.size)
	}
	if mediaType != "" {
		req.Header.Set("Content-Type", mediaType)
	}
	if err := c.authorize(ctx, req.Header); err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK || res.StatusCode == http.StatusNoContent {
		return res, nil
	}
	defer res.Body.Close()
	if c.credentials != nil && unauthorized(res.StatusCode) {
		c.credentials.refuse()
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, errorMax)) // the status says enough
	return nil, &refused{status: res.StatusCode, body: string(text)}
}

// authorize adds the access token, and the project that pays if the credentials name one.
func (c *client) authorize(ctx context.Context, h http.Header) error {
	if c.credentials == nil {
		return nil // an emulator
	}
	token, project, err := c.credentials.token(ctx)
	if err != nil {
		return fmt.Errorf("get an access token: %w", err)
	}
	kind := token.Type
	if kind == "" {
		kind = "Bearer"
	}
	h.Set("Authorization", kind+" "+token.Value)
	if project != "" {
		h.Set("X-Goog-User-Project", project)
	}
	return nil
}

// sendForJSON sends one request and decodes its answer into v.
func (c *client) sendForJSON(ctx context.Context, method, target, mediaType string, body io.Reader, v any) error {
	res, err := c.send(ctx, method, target, mediaType, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, answerMax))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("the answer is not the JSON of a GCS endpoint: %w", err)
	}
	return nil
}

// download reads an object and its generation.
func (c *client) download(idle *remote.Idle, name string) (data []byte, generation int64, err error) {
	res, err := c.send(idle, http.MethodGet, c.object(name)+"?alt=media", "", nil)
	if err != nil {
		return nil, 0, err
	}
	defer res.Body.Close()
	generation, err = strconv.ParseInt(res.Header.Get("X-Goog-Generation"), 10, 64)
	if err != nil || generation <= 0 {
		return nil, 0, errNoGeneration
	}
	if data, err = remote.ReadBody(idle, res.Body, res.ContentLength); err != nil {
		return nil, 0, &tornError{err}
	}
	if sum, ok := sumOf(res.Header); ok && sum != crc32.Checksum(data, castagnoli) {
		return nil, 0, &tornError{errors.New("checksum mismatch (CRC-32C)")}
	}
	return data, generation, nil
}

var errNoGeneration = errors.New("the answer has no generation: is this a GCS endpoint?")

// tornError is a body that broke off or was changed on its way.
type tornError struct{ cause error }

func (e *tornError) Error() string { return e.cause.Error() }
func (e *tornError) Unwrap() error { return e.cause }

// sumOf returns the CRC-32C that an answer announces.
func sumOf(h http.Header) (sum uint32, ok bool) {
	for _, line := range h["X-Goog-Hash"] {
		for one := range strings.SplitSeq(line, ",") {
			if text, found := strings.CutPrefix(strings.TrimSpace(one), "crc32c="); found {
				raw, err := base64.StdEncoding.DecodeString(text)
				if err == nil && len(raw) == 4 {
					return binary.BigEndian.Uint32(raw), true
				}
			}
		}
	}
	return 0, false
}

// repeated calls one, which must be safe to repeat, until it succeeds, fails for good, or has been tried
// readAttempts times.
func repeated[T any](ctx context.Context, one func() (T, error)) (T, error) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 500*time.Millisecond, 4*time.Second
	var last error
	v, err := backoff.Retry(ctx, func() (T, error) {
		v, err := one()
		last = err
		if err != nil && !mayPass(err) {
			return v, backoff.Permanent(err)
		}
		return v, err
	}, backoff.WithBackOff(pause), backoff.WithMaxTries(readAttempts))
	if err != nil && last != nil {
		err = last // Retry reports the end of ctx instead
	}
	return v, err
}

// mayPass reports whether a failure may be gone at the next attempt.
func mayPass(err error) bool {
	if torn := (*tornError)(nil); errors.As(err, &torn) {
		return true
	}
	switch status := statusOf(err); {
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status >= http.StatusInternalServerError:
		return true
	case status != 0:
		return false
	}
	noAnswer := (*url.Error)(nil)
	return errors.As(err, &noAnswer) || errors.Is(err, io.ErrUnexpectedEOF)
}
