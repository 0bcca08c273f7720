package core

import (
	"osqueue/internal/auth"
)

// AnyRight are the rights of which each role has at least one.
const AnyRight = auth.Enqueue | auth.Work | auth.Follow | auth.Read | auth.Manage | auth.Admin | auth.Hooks

// InForce returns the mode of the checks.
func (a *access) InForce() string {
	if a.Off() {
		return SecurityOff
	}
	return a.Mode
}
