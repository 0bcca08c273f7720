package auth

import (
	"strings"

	"osqueue/fsm"
)

// Right is a set of rights. A route declares one or more, of which its caller needs one. The
// zero Right is not declared: package api panics, so that a forgotten declaration is noticed.
type Right uint16

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
	Node          // calls between nodes: the certificate of a node, at the port for nodes; no role has it
)

var rightNames = []string{"public", "enqueue", "work", "follow", "read", "manage", "admin", "hooks", "node"}

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

// Needed names the rights, of which one is needed, and the roles that have one, for messages:
// "the right read (role reader, operator or admin)".
func (r Right) Needed() string {
	var roles []string
	for role := fsm.RoleProducer; role <= fsm.RoleAdmin; role++ {
		if RightsOf(role)&r != 0 {
			roles = append(roles, role.String())
		}
	}
	return "the right " + oneOf(strings.Split(r.String(), ",")) + " (role " + oneOf(roles) + ")"
}

// oneOf joins alternatives.
func oneOf(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
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
