package fsm

import (
	"errors"
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
// The tenant "" is that of callers without limits. They name the objects of others as the state
// does.

// TenantMax is the largest length of a tenant's name, in bytes.
const TenantMax = 64

const tenantEnd = "/"

var errTenant = errors.New("the tenant is not UTF-8, too long, or contains a slash")

func checkTenant(name string) error {
	return need(len(name) <= TenantMax && utf8.ValidString(name) && !strings.Contains(name, tenantEnd), errTenant)
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
// tenant.
func NameFor(tenant, owned string) string {
	if tenant == "" {
		return owned
	}
	if rest, ok := strings.CutPrefix(owned, tenant+tenantEnd); ok {
		return rest
	}
	return owned
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
	if m.Request != nil {
		own(tenant, &m.Request.Key)
	}
	ownNames(tenant, m)
}

func own(tenant string, names ...*string) {
	for _, name := range names {
		*name = Owned(tenant, *name)
	}
}

func ownNames(tenant string, m *fsmpb.Mutation) {
	switch op := m.GetOp().(type) {
	case *fsmpb.Mutation_Enqueue:
		ownJobs(tenant, op.Enqueue.Jobs...)
		if b := op.Enqueue.NewBatch; b != nil {
			own(tenant, &b.Id)
			ownJobs(tenant, b.Callback)
		}
	case *fsmpb.Mutation_Claim:
		own(tenant, &op.Claim.Worker)
	case *fsmpb.Mutation_Heartbeat:
		own(tenant, &op.Heartbeat.Worker)
	case *fsmpb.Mutation_Complete:
		own(tenant, &op.Complete.Worker)
	case *fsmpb.Mutation_Fail:
		own(tenant, &op.Fail.Worker)
	case *fsmpb.Mutation_Release:
		own(tenant, &op.Release.Worker)
	case *fsmpb.Mutation_RegisterWorker:
		own(tenant, &op.RegisterWorker.Name)
	case *fsmpb.Mutation_WorkerDead:
		own(tenant, &op.WorkerDead.Name)
	case *fsmpb.Mutation_SetQuiet:
		own(tenant, &op.SetQuiet.Name)
	case *fsmpb.Mutation_Change:
		if f := op.Change.Filter; f != nil {
			own(tenant, &f.Batch)
			if f.Worker != nil {
				own(tenant, f.Worker)
			}
		}
	case *fsmpb.Mutation_PutCron:
		own(tenant, &op.PutCron.Name)
		ownJobs(tenant, op.PutCron.Job)
	case *fsmpb.Mutation_PauseCron:
		own(tenant, &op.PauseCron.Name)
	case *fsmpb.Mutation_DeleteCron:
		own(tenant, &op.DeleteCron.Name)
	case *fsmpb.Mutation_TriggerCron:
		own(tenant, &op.TriggerCron.Name)
	case *fsmpb.Mutation_Group:
		for _, part := range op.Group.Mutations {
			ownNames(tenant, part)
		}
	}
}

func ownJobs(tenant string, jobs ...*fsmpb.NewJob) {
	for _, n := range jobs {
		if n == nil {
			continue
		}
		own(tenant, &n.Batch)
		if n.Unique != nil {
			own(tenant, &n.Unique.Key)
		}
	}
}

// For returns the job as a caller of a tenant sees it, with NameFor of each name.
func (j *Job) For(tenant string) *Job {
	if tenant == "" {
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

// For is Job.For for a schedule.
func (c *Cron) For(tenant string) *Cron {
	if tenant == "" {
		return c
	}
	out := *c
	out.Name, out.Job = NameFor(tenant, c.Name), cloneNewJob(c.Job)
	if u := out.Job.GetUnique(); u != nil {
		out.Job.Unique = &fsmpb.Unique{Key: NameFor(tenant, u.Key), Scope: u.Scope, PeriodMs: u.PeriodMs}
	}
	return &out
}
