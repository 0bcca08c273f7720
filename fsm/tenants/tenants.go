// Package tenants gives the objects that clients name their names in the state, and decides which
// jobs exist for a caller.
package tenants

import (
	"errors"
	"path"
	"strings"
	"unicode/utf8"

	"osqueue/fsm/fsmpb"
)

// An object that a client names has an owner, the tenant of the mutation that made it. The state
// knows such an object by a name that begins with the tenant, so that the tenant is part of every
// key without a second one: Owned makes the name. An object of another tenant is then, for a
// caller, one that does not exist. DecodeEntry is the one place that applies the rule to a
// mutation; the machine sees only names of the state.
//
// The tenant "" is that of callers without limits. No caller can send NUL, which ends the tenant in
// a name of the state (Foreign), so a caller without limits cannot make or use an object of a tenant
// by a name that looks like one. People see a slash instead (NameFor).

// Max is the largest length of a tenant's name, in bytes.
const Max = 64

// Anonymous is the worker name of a claim that named none. It is different from the
// worker "". Names given by callers must not contain NUL.
const Anonymous = "\x00"

// End ends the tenant in a name of the state, and shownEnd in one that people see.
const (
	End      = "\x00"
	shownEnd = "/"
)

var errTenant = errors.New("the tenant is not UTF-8, too long, or contains a slash or NUL")

// Check refuses a name that no tenant has; "" is the tenant of callers without limits.
func Check(name string) error {
	if len(name) > Max || !utf8.ValidString(name) || strings.ContainsAny(name, shownEnd+End) {
		return errTenant
	}
	return nil
}

// Valid reports whether a tenant may have the name.
func Valid(name string) bool { return name != "" && Check(name) == nil }

// Owned returns the name by which the state knows the object that a caller of a tenant names. No
// name, and that of all workers without one, have no owner.
func Owned(tenant, name string) string {
	if tenant == "" || name == "" || name == Anonymous {
		return name
	}
	return tenant + End + name
}

// NameFor returns the name of an object for a caller of a tenant: its own objects without the
// tenant, those of others with the tenant and a slash before the name.
func NameFor(tenant, owned string) string {
	of, name, _ := strings.Cut(owned, End)
	switch {
	case !Owns(owned):
		return owned
	case of == tenant:
		return name
	}
	return of + shownEnd + name
}

// Printable returns the name of a worker for people.
func Printable(worker string) string {
	if worker == Anonymous {
		return "(no name)"
	}
	return NameFor("", worker)
}

// Cut returns the tenant and the name that NameFor has put together for a caller of another
// tenant, if shown can be such a name.
func Cut(shown string) (tenant, name string, ok bool) {
	tenant, name, ok = strings.Cut(shown, shownEnd)
	return tenant, name, ok && Valid(tenant) && name != ""
}

// Foreign reports whether a mutation that a client sends has a name of the state, which has a tenant.
func Foreign(m *fsmpb.Mutation) bool {
	found := false
	visitNames(m, func(name *string) { found = found || Owns(*name) })
	return found
}

// InScope reports whether a job of a type and a group exists for a caller.
func InScope(s *fsmpb.Scope, jobType, group string) bool {
	return Within(s.GetTypes(), jobType) && Within(s.GetGroups(), group)
}

// Within reports whether one of the globs matches a name; no globs match all.
func Within(globs []string, name string) bool {
	for _, glob := range globs {
		if ok, err := path.Match(glob, name); ok && err == nil {
			return true
		}
	}
	return len(globs) == 0
}

// Claimant returns the name by which the state knows the worker of a claim.
func Claimant(m *fsmpb.Mutation) string { return Owned(m.GetTenant(), m.GetClaim().GetWorker()) }

// Settle gives the objects that a mutation names the names of the state. After it the
// mutation has no tenant.
func Settle(m *fsmpb.Mutation) {
	tenant := m.GetTenant()
	if tenant == "" {
		return
	}
	m.Tenant = ""
	visitNames(m, func(name *string) { *name = Owned(tenant, *name) })
}

// visitNames calls fn for each name in a mutation that an object with an owner has.
func visitNames(m *fsmpb.Mutation, own func(name *string)) {
	if m.Request != nil {
		own(&m.Request.Key)
	}
	switch op := m.GetOp().(type) {
	case *fsmpb.Mutation_Enqueue:
		visitJobs(own, op.Enqueue.Jobs...)
		if p := op.Enqueue.Parent; p != nil {
			own(&p.Worker)
		}
		if b := op.Enqueue.NewBatch; b != nil {
			own(&b.Id)
			visitJobs(own, b.Callback)
		}
	case *fsmpb.Mutation_Claim:
		own(&op.Claim.Worker)
	case *fsmpb.Mutation_Heartbeat:
		own(&op.Heartbeat.Worker)
	case *fsmpb.Mutation_Complete:
		own(&op.Complete.Worker)
	case *fsmpb.Mutation_Fail:
		own(&op.Fail.Worker)
	case *fsmpb.Mutation_Release:
		own(&op.Release.Worker)
	case *fsmpb.Mutation_StoreStep:
		own(&op.StoreStep.Worker)
	case *fsmpb.Mutation_Suspend:
		own(&op.Suspend.Worker)
		own(&op.Suspend.Batch)
	case *fsmpb.Mutation_ReserveArtefact:
		own(&op.ReserveArtefact.Id)
	case *fsmpb.Mutation_AttachArtefact:
		own(&op.AttachArtefact.Worker)
		if a := op.AttachArtefact.Artefact; a != nil {
			own(&a.Id)
		}
	case *fsmpb.Mutation_RegisterWorker:
		own(&op.RegisterWorker.Name)
	case *fsmpb.Mutation_WorkerDead:
		own(&op.WorkerDead.Name)
	case *fsmpb.Mutation_SetQuiet:
		own(&op.SetQuiet.Name)
	case *fsmpb.Mutation_Change:
		if f := op.Change.Filter; f != nil {
			own(&f.Batch)
			if f.Worker != nil {
				own(f.Worker)
			}
		}
	case *fsmpb.Mutation_EditJob:
		visitAll(own, op.EditJob.GetLimits().GetLimits())
	case *fsmpb.Mutation_SetLimit:
		own(&op.SetLimit.Pattern)
	case *fsmpb.Mutation_ThrottleLimit:
		own(&op.ThrottleLimit.Key)
		own(&op.ThrottleLimit.Worker)
	case *fsmpb.Mutation_PutCron:
		own(&op.PutCron.Name)
		visitJobs(own, op.PutCron.Job)
	case *fsmpb.Mutation_PauseCron:
		own(&op.PauseCron.Name)
	case *fsmpb.Mutation_DeleteCron:
		own(&op.DeleteCron.Name)
	case *fsmpb.Mutation_TriggerCron:
		own(&op.TriggerCron.Name)
	case *fsmpb.Mutation_Group:
		for _, part := range op.Group.Mutations {
			visitNames(part, own)
		}
	}
}

func visitJobs(own func(*string), jobs ...*fsmpb.NewJob) {
	for _, n := range jobs {
		if n == nil {
			continue
		}
		for _, a := range n.Artefacts {
			own(&a.Id)
		}
		o := n.Options
		if o == nil {
			continue
		}
		own(&o.Batch)
		own(&o.Sequence)
		visitAll(own, o.Limits)
		visitAll(own, o.AfterBatches)
		if o.Unique != nil {
			own(&o.Unique.Key)
		}
	}
}

func visitAll(own func(*string), names []string) {
	for i := range names {
		own(&names[i])
	}
}

// Owns reports whether a name of the state has a tenant.
func Owns(owned string) bool { return strings.Contains(owned, End) && owned != Anonymous }

// Of returns the tenant in a name of the state, or "".
func Of(owned string) string {
	tenant, _, found := strings.Cut(owned, End)
	if !found {
		return ""
	}
	return tenant
}
