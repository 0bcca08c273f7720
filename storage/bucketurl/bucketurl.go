// Package bucketurl opens the bucket that a URL stands for. It is the only
// package that knows all drivers; everybody else knows storage.Bucket.
//
//	mem://NAME                                    in this process, for tests
//	file:///DIR                                   a directory
//	s3://BUCKET/PREFIX?endpoint=URL&region=NAME   S3 and its like
//	gs://BUCKET/PREFIX?endpoint=URL               Google Cloud Storage
//
// s3 takes sse=s3|kms|kms-dsse and sse-key=NAME, gs takes kms-key=NAME: every write then
// asks the store to encrypt the object.
//
// Opening checks the URL and finds credentials, but does not talk to the store;
// package probe does.
package bucketurl

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"osqueue/storage"
	"osqueue/storage/file"
	"osqueue/storage/gcs"
	"osqueue/storage/mem"
	"osqueue/storage/s3"
)

// Forms describes the URLs that Open takes, for help texts and errors.
const Forms = "mem://NAME, file:///DIR, s3://BUCKET/PREFIX?endpoint=URL&region=NAME, or gs://BUCKET/PREFIX?endpoint=URL"

// opener opens the bucket of one scheme.
type opener func(context.Context, *url.URL) (storage.Bucket, error)

var openers = map[string]opener{
	"mem":  open(mem.Open),
	"file": open(file.Open),
	"s3":   open(s3.Open),
	"gs":   open(gcs.Open),
}

// open makes an opener of a driver's Open, and a nil interface of a nil bucket.
func open[B storage.Bucket](of func(context.Context, *url.URL) (B, error)) opener {
	return func(ctx context.Context, u *url.URL) (storage.Bucket, error) {
		b, err := of(ctx, u)
		if err != nil {
			return nil, err
		}
		return b, nil
	}
}

// aliases are schemes that people write by mistake.
var aliases = map[string]string{
	"gcs": "gs", "memory": "mem", "dir": "file", "fs": "file", "s3a": "s3", "s3n": "s3", "http": "s3", "https": "s3",
}

// Open opens the bucket that raw stands for. The caller closes it.
func Open(ctx context.Context, raw string) (storage.Bucket, error) {
	return openWith(ctx, raw, openers["file"])
}

// OpenKnown is Open for a node that has state, and so has used the bucket before. A directory
// that is not a bucket yet is not that one: every call fails until it is.
func OpenKnown(ctx context.Context, raw string) (storage.Bucket, error) {
	return openWith(ctx, raw, open(file.OpenKnown))
}

// OpenReadOnly is Open for a reader. It makes and changes nothing in a directory.
func OpenReadOnly(ctx context.Context, raw string) (storage.Bucket, error) {
	return openWith(ctx, raw, open(file.OpenReadOnly))
}

// openWith opens a bucket, a directory by ofDirectory.
func openWith(ctx context.Context, raw string, ofDirectory opener) (storage.Bucket, error) {
	u, err := parse(raw)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "file" {
		return ofDirectory(ctx, u)
	}
	return openers[u.Scheme](ctx, u)
}

// WithEncryption returns the URL with the parameters for encryption at rest. kind is s3,
// kms or kms-dsse, and key the name of a key of the store's key management service; both
// may be empty. Google's store takes kms with a key only.
func WithEncryption(raw, kind, key string) (string, error) {
	if kind == "" && key == "" {
		return raw, nil
	}
	u, err := parse(raw)
	if err != nil {
		return "", err
	}
	query := u.Query()
	switch {
	case u.Scheme == "s3":
		query.Set("sse", kind)
		if key != "" {
			query.Set("sse-key", key)
		}
	case u.Scheme == "gs" && kind == "kms" && key != "":
		query.Set("kms-key", key)
	case u.Scheme == "gs":
		return "", errors.New("a gs:// bucket takes kms, with the name of a key (projects/…/cryptoKeys/…)")
	default:
		return "", fmt.Errorf("a %s:// bucket cannot encrypt: encrypt the disk, or the payloads (osqueue key)", u.Scheme)
	}
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// Check reports what is wrong with raw as far as that shows without opening
// anything: whether it is a URL with a known scheme.
func Check(raw string) error {
	_, err := parse(raw)
	return err
}

func parse(raw string) (*url.URL, error) {
	if raw == "" {
		return nil, fmt.Errorf("the bucket URL is empty: write %s", Forms)
	}
	if !strings.Contains(raw, ":") {
		return nil, fmt.Errorf("bucket URL %q has no scheme: %s", withoutQuery(raw), withoutScheme(raw))
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The error of url.Parse repeats the URL, password included.
		return nil, fmt.Errorf("the bucket URL cannot be read (a %% or a space must be written as %%25 or %%20): write %s", Forms)
	}
	if _, ok := openers[u.Scheme]; ok {
		return u, nil
	}
	if meant, ok := aliases[u.Scheme]; ok {
		return nil, fmt.Errorf("bucket URL %q: unknown scheme %q; did you mean %s://…? Write %s", storage.RedactURL(u), u.Scheme, meant, Forms)
	}
	return nil, fmt.Errorf("bucket URL %q: unknown scheme %q; write %s", storage.RedactURL(u), u.Scheme, Forms)
}

// withoutQuery cuts off what may have a secret in it.
func withoutQuery(raw string) string {
	path, _, _ := strings.Cut(raw, "?")
	return path
}

// withoutScheme returns the URL to write instead of a path or a bare name.
func withoutScheme(raw string) string {
	if !slices.ContainsFunc([]string{"/", ".", "~"}, func(p string) bool { return strings.HasPrefix(raw, p) }) {
		return "write " + Forms
	}
	path, err := filepath.Abs(withoutQuery(raw))
	if err != nil || strings.HasPrefix(raw, "~") {
		path = "/absolute/path"
	}
	return fmt.Sprintf("for a directory write file://%s", (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath())
}
