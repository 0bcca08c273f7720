//go:build linux && !amd64

package sandbox

import "errors"

const canRestrict = false

func restrict(int, *guard) error {
	return errors.New("a program cannot be restricted on this architecture")
}
