package main

import (
	"errors"
	"io/fs"
	"strings"
)

// inMemory reports whether a bucket exists only in the process that opens it.
func inMemory(bucket string) bool { return strings.HasPrefix(bucket, "mem:") }

// openError explains why a bucket cannot be opened. Usually its URL is wrong, except for
// a directory without permission.
func openError(err error) error {
	if errors.As(err, new(*fs.PathError)) {
		return err
	}
	return &usageError{err: err}
}
