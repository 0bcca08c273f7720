//go:build !unix || solaris || aix

package file

import (
	"errors"
	"os"
)

var supported = errors.New("a directory bucket needs flock(2), which this system has not: use s3:// or gs://")

func flock(*os.File) error { return supported }
