package auth

import (
	"strings"

	"osqueue/fsm"
)

// Right is a set of rights. A route declares one or more, of which its caller needs one. The
// zero Right is not declared: package api panics, so that a forgotten declaration is noticed.
type Right uint8

// The rights. Public needs no principal.
const (
	Public  Right = 1 << iota
	Enqueue       // new jobs and batches
	Work          // claims, reports, registration of workers
	Follow        // one job by its id, and waits: for producers and workers
	Read          // everything that can be read
	Manage        // changes of jobs, queues, schedules, workers
	Admin         // tokens
	Hooks         // webhooks
)

var rightNames = []string{"public", "enqueue", "work", "follow", "read", "manage", "admin", "hooks"}

// String returns the names of the rights, separated by commas.
func (r Right) String() string {
	var names []string
	for i, name := range rightNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// RightsOf returns the rights of a role.
func RightsOf(role fsm.Role) Right {
	switch role {
	case fsm.RoleProducer:
		return Public | Enqueue | Follow
	case fsm.RoleWorker:
		return Public | Work | Follow
	case fsm.RoleReader:
		return Public | Follow | Read
	case fsm.RoleOperator:
		return Public | Enqueue | Follow | Read | Manage | Hooks
	case fsm.RoleAdmin:
		return Public | Enqueue | Work | Follow | Read | Manage | Admin | Hooks
	}
	return 0
}
