//go:build !linux

package file

import "os"

// birthAndMount knows neither on this system.
func birthAndMount(*os.File) (birth [2]int64, mount uint64) { return birth, 0 }
