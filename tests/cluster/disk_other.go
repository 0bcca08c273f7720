//go:build !linux

package cluster

import (
	"errors"
	"os"
)

var errOnlyLinux = errors.New("it takes Linux")

func mountTmpfs(string, int64) error { return errOnlyLinux }
func unmountTmpfs(string) error      { return errOnlyLinux }
func spaceOf(string) (Space, error)  { return Space{}, errOnlyLinux }
func grow(*os.File, int64) error     { return errOnlyLinux }
func full(error) bool                { return false }
