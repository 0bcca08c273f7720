// Package remote is what the drivers of stores behind HTTP have in common: the
// form of their URLs, and deadlines that fit both a small document and a
// snapshot of hundreds of megabytes.
package remote

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"osqueue/storage"
)

// maxPrefixBytes leaves room for storage.MaxKeyBytes within the 1024 bytes that
// S3 and GCS give a name.
const maxPrefixBytes = 400

// Location is a bucket URL taken apart.
type Location struct {
	Scheme string
	Bucket string
	// Prefix is empty, or ends with a slash.
	Prefix string
	// Params are the query parameters that were given, each with one
	// non-empty value.
	Params map[string]string
}

// ParseLocation takes scheme://bucket/prefix?params apart. It refuses what it
// does not understand, and says what to write instead.
func ParseLocation(u *url.URL, allowed ...string) (Location, error) {
	l := Location{Scheme: u.Scheme, Bucket: u.Host, Params: map[string]string{}}
	fail := func(format string, args ...any) (Location, error) {
		return Location{}, fmt.Errorf("bucket URL %q: %s", storage.RedactURL(u), fmt.Sprintf(format, args...))
	}
	switch {
	case u.User != nil:
		return fail("the URL must not contain credentials: set them in the environment, or in the configuration " +
			"files of the store's client")
	case u.Host == "" || u.Opaque != "":
		return fail("the bucket's name is missing: write %s://BUCKET or %s://BUCKET/PREFIX", u.Scheme, u.Scheme)
	case strings.Contains(u.Host, ":"):
		return fail("the name of a bucket has no port: write %s://BUCKET?endpoint=http://HOST:PORT", u.Scheme)
	case u.Fragment != "":
		return fail("the fragment (#…) has no meaning: remove it")
	}
	if prefix := strings.Trim(u.Path, "/"); prefix != "" {
		if err := storage.ValidateKey(prefix); err != nil {
			return fail("the prefix is not valid: %v", err)
		}
		if len(prefix) > maxPrefixBytes {
			return fail("the prefix has %d bytes; at most %d are allowed", len(prefix), maxPrefixBytes)
		}
		l.Prefix = prefix + "/"
	}
	if err := l.parseParams(u.RawQuery, allowed); err != nil {
		return fail("%v", err)
	}
	return l, nil
}

func (l *Location) parseParams(query string, allowed []string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the parameters cannot be parsed: write NAME=VALUE&NAME=VALUE, and % as %25")
	}
	for name, v := range values {
		switch {
		case !slices.Contains(allowed, name):
			return fmt.Errorf("unknown parameter %q; use %s", name, strings.Join(allowed, ", "))
		case len(v) != 1 || v[0] == "":
			return fmt.Errorf("parameter %q needs exactly one value", name)
		}
		l.Params[name] = v[0]
	}
	if e, ok := l.Params["endpoint"]; ok {
		return checkEndpoint(e)
	}
	return nil
}

func checkEndpoint(raw string) error {
	u, err := url.Parse(raw)
	if err != nil { // its text may have a password
		return errors.New("the endpoint is not a web address: write endpoint=http://HOST:PORT or https://HOST")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("endpoint %q is not a web address: write endpoint=http://HOST:PORT or https://HOST", storage.RedactURL(u))
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("endpoint %q must have a scheme, a host and a path only", storage.RedactURL(u))
	}
	return nil
}

// Name returns the store's name of the object key.
func (l Location) Name(key string) string { return l.Prefix + key }

// Key is the inverse of Name. It reports false for names that are no keys of
// this location: objects of other programs, and directory markers.
func (l Location) Key(name string) (string, bool) {
	key, ok := strings.CutPrefix(name, l.Prefix)
	return key, ok && storage.ValidateKey(key) == nil
}

// String returns the location for error messages.
func (l Location) String() string {
	return l.Scheme + "://" + l.Bucket + "/" + strings.TrimSuffix(l.Prefix, "/")
}

// ContentType returns what the object is declared as, so that a browser or a
// console shows documents as text.
func ContentType(key string) string {
	if strings.HasSuffix(key, ".json") {
		return "application/json"
	}
	return "application/octet-stream"
}
