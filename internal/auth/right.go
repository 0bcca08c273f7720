package auth

import (
	"net/http"
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

// Route is a request of an operator or of a node, outside of the API.
type Route struct {
	Pattern string // of http.ServeMux: method and path
	Right   Right
	Handler http.HandlerFunc
}

// Method returns the method of the pattern.
func (r *Route) Method() string {
	method, _, _ := strings.Cut(r.Pattern, " ")
	return method
}

// Path returns the path of the pattern.
func (r *Route) Path() string {
	_, path, _ := strings.Cut(r.Pattern, " ")
	return path
}

// Mux serves the routes that one of the given rights is enough for. guard, unless nil, returns the
// handler that checks the caller of a route. Mux panics if a route declares no right.
func Mux(routes []Route, rights Right, guard func(Route) http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range routes {
		if r.Right == 0 {
			panic("auth: there is no declared right for " + r.Pattern)
		}
		if r.Right &= rights; r.Right == 0 {
			continue
		}
		var h http.Handler = r.Handler
		if guard != nil {
			h = guard(r)
		}
		mux.Handle(r.Pattern, h)
	}
	return mux
}
