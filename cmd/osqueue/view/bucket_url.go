package view

import (
	"errors"
	"io/fs"
	"strings"
)

// InMemory reports whether a bucket exists only in the process that opens it.
func InMemory(bucket string) bool { return strings.HasPrefix(bucket, "mem:") }

// OpenError explains why a bucket cannot be opened. Usually its URL is wrong, except for
// a directory without permission.
func OpenError(err error) error {
	if errors.As(err, new(*fs.PathError)) {
		return err
	}
	return &UsageError{Err: err}
}
