package fsm

import (
	"errors"
	"path"
	"slices"
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

// TenantMax is the largest length of a tenant's name, in bytes.
const TenantMax = 64

// tenantEnd ends the tenant in a name of the state, and tenantShown in one that people see.
const (
	tenantEnd   = "\x00"
	tenantShown = "/"
)

var errTenant = errors.New("the tenant is not UTF-8, too long, or contains a slash or NUL")

func checkTenant(name string) error {
	return need(len(name) <= TenantMax && utf8.ValidString(name) && !strings.ContainsAny(name, tenantShown+tenantEnd), errTenant)
}

// ValidTenant reports whether a tenant may have the name.
func ValidTenant(name string) bool { return name != "" && checkTenant(name) == nil }

// Owned returns the name by which the state knows the object that a caller of a tenant names. No
// name, and that of all workers without one, have no owner.
func Owned(tenant, name string) string {
	if tenant == "" || name == "" || name == Anonymous {
		return name
	}
	return tenant + tenantEnd + name
}

// NameFor returns the name of an object for a caller of a tenant: its own objects without the
// tenant, those of others with the tenant and a slash before the name.
func NameFor(tenant, owned string) string {
	of, name, _ := strings.Cut(owned, tenantEnd)
	switch {
	case !foreign(owned):
		return owned
	case of == tenant:
		return name
	}
	return of + tenantShown + name
}

// CutTenant returns the tenant and the name that NameFor has put together for a caller of another
// tenant, if shown can be such a name.
func CutTenant(shown string) (tenant, name string, ok bool) {
	tenant, name, ok = strings.Cut(shown, tenantShown)
	return tenant, name, ok && ValidTenant(tenant) && name != ""
}

// Foreign reports whether a mutation that a client sends has a name of the state, which has a tenant.
func Foreign(m *fsmpb.Mutation) bool {
	found := false
	visitNames(m, func(name *string) { found = found || foreign(*name) })
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

// settleOwner gives the objects that a mutation names the names of the state. After it the
// mutation has no tenant.
func settleOwner(m *fsmpb.Mutation) {
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
		own(&n.Batch)
		if n.Unique != nil {
			own(&n.Unique.Key)
		}
	}
}

// For returns the job as a caller of a tenant sees it, with NameFor of each name.
func (j *Job) For(tenant string) *Job {
	o := j.Options()
	if !foreign(j.Execution().Worker) && !foreign(o.Batch) && !foreign(o.Cron) && !foreign(o.Unique.Key) &&
		!slices.ContainsFunc(j.Details().History, func(a Attempt) bool { return foreign(a.Worker) }) {
		return j
	}
	out := *j
	if out.Exec != nil {
		x := *out.Exec
		x.Worker = NameFor(tenant, x.Worker)
		out.Exec = &x
	}
	if out.Opt != nil {
		o := *out.Opt
		o.Batch, o.Cron, o.Unique.Key = NameFor(tenant, o.Batch), NameFor(tenant, o.Cron), NameFor(tenant, o.Unique.Key)
		out.Opt = &o
	}
	if out.Det != nil && len(out.Det.History) > 0 {
		d := *out.Det
		d.History = slices.Clone(d.History)
		for i := range d.History {
			d.History[i].Worker = NameFor(tenant, d.History[i].Worker)
		}
		out.Det = &d
	}
	return &out
}

// foreign reports whether a name of the state has a tenant.
func foreign(owned string) bool { return strings.Contains(owned, tenantEnd) && owned != Anonymous }

// For is Job.For for a schedule.
func (c *Cron) For(tenant string) *Cron {
	key := c.Job.GetUnique().GetKey()
	if !foreign(c.Name) && !foreign(key) {
		return c
	}
	out := *c
	out.Name, out.Job = NameFor(tenant, c.Name), cloneNewJob(c.Job)
	if u := out.Job.GetUnique(); u != nil {
		out.Job.Unique = &fsmpb.Unique{Key: NameFor(tenant, u.Key), Scope: u.Scope, PeriodMs: u.PeriodMs}
	}
	return &out
}
