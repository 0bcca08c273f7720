package core

import (
	"context"
	"errors"
	"slices"

	"osqueue/cluster"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/tenants"
	"osqueue/internal/auth"
)

// gate is the only way from a call to the log: nothing else in this package has a Writer. Whatever passes it is within
// the scope of its caller, names the tenant to whom its objects belong, has the caller as its actor and owner, and
// counts in the caller's quota.
type gate struct {
	s  *Core
	To Writer
}

// Propose commits the mutations of a call in one entry. The first one has the call's idempotency key.
func (g *gate) Propose(c *Call, ms ...*fsmpb.Mutation) ([]fsm.Result, fsm.LSN, error) {
	for _, m := range ms {
		if err := g.Pass(c, m); err != nil {
			return nil, fsm.LSN{}, err
		}
	}
	var err error
	if ms[0].Request, err = c.request(); err != nil {
		return nil, fsm.LSN{}, err
	}
	return g.To.ProposeWithin(c.Ctx, ms, g.s.Config.Timeouts.Commit)
}

// Await waits for a job with the claim of a call.
func (g *gate) Await(ctx context.Context, c *Call, until <-chan struct{}, claim *fsmpb.Mutation) (cluster.Awaited, error) {
	err := g.Pass(c, claim)
	if err != nil {
		return cluster.Awaited{}, err
	}
	if claim.Request, err = c.request(); err != nil {
		return cluster.Awaited{}, err
	}
	return g.To.AwaitClaim(ctx, until, claim)
}

// KeepAlive commits a heartbeat of the worker whose claim waits.
func (g *gate) KeepAlive(ctx context.Context, c *Call, m *fsmpb.Mutation) error {
	if err := g.Pass(c, m); err != nil {
		return err
	}
	_, _, err := g.To.Propose(ctx, m)
	return err
}

// touch records the use of a token. It is a write of the server, for no caller.
func (g *gate) touch(ctx context.Context, id string) error {
	_, _, err := g.To.Propose(ctx, &fsmpb.Mutation{Op: &fsmpb.Mutation_TouchTokens{TouchTokens: &fsmpb.TouchTokens{Ids: []string{id}}}})
	return err
}

// errNoOperation means that a handler proposes what no caller may.
var errNoOperation = errors.New("no call may propose this mutation")

// nobody owns what callers without identity claim: its number is 0.
var nobody = new(auth.Principal)

// Pass refuses a mutation outside of the scope of the caller, and marks it.
func (g *gate) Pass(c *Call, m *fsmpb.Mutation) error {
	switch {
	case !forCalls(m):
		return errNoOperation
	case tenants.Foreign(m):
		return Fail(BadRequest, "a name contains the character NUL")
	}
	m.Tenant, m.Actor = c.tenant(), ""
	p := c.Principal
	if p == nil || g.s.Access.Off() {
		nobody.Own(m)
	} else {
		p.Own(m)
	}
	if p == nil {
		return nil
	}
	m.Actor = p.Actor()
	rules := auth.Rules{
		Programs: g.s.Access.Programs, Job: g.s.Node.Job,
		Cron: func(name string) *fsm.Cron { return g.s.Node.View().Cron(c.Owned(name)) },
	}
	err := p.CheckWrite(m, rules)
	if g.s.enforces(p) {
		if p.Bind(m, rules); errors.Is(err, auth.ErrHidden) {
			err = nil // the machine answers for each job
		}
	}
	if err = g.s.Denied(c, err); err != nil {
		return err
	}
	p.Count(m, g.s.Access.Mode == SecurityOn)
	return nil
}

// forCalls reports whether calls propose mutations of the kind. The others are those of the leader and of the server.
func forCalls(m *fsmpb.Mutation) bool {
	switch op := m.GetOp().(type) {
	case *fsmpb.Mutation_Enqueue, *fsmpb.Mutation_Claim, *fsmpb.Mutation_Heartbeat, *fsmpb.Mutation_Complete,
		*fsmpb.Mutation_Fail, *fsmpb.Mutation_Release, *fsmpb.Mutation_ForceComplete, *fsmpb.Mutation_Change, *fsmpb.Mutation_EditJob,
		*fsmpb.Mutation_RegisterWorker, *fsmpb.Mutation_WorkerDead, *fsmpb.Mutation_SetQuiet, *fsmpb.Mutation_SetQueue,
		*fsmpb.Mutation_SetLimit, *fsmpb.Mutation_ThrottleLimit,
		*fsmpb.Mutation_StoreStep, *fsmpb.Mutation_Suspend, *fsmpb.Mutation_SendSignal, *fsmpb.Mutation_MakeLink, *fsmpb.Mutation_RetryFlow,
		*fsmpb.Mutation_ReserveArtefact, *fsmpb.Mutation_AttachArtefact,
		*fsmpb.Mutation_PutCron, *fsmpb.Mutation_PauseCron, *fsmpb.Mutation_DeleteCron, *fsmpb.Mutation_TriggerCron,
		*fsmpb.Mutation_CreateToken, *fsmpb.Mutation_RevokeToken,
		*fsmpb.Mutation_PutHook, *fsmpb.Mutation_DeleteHook, *fsmpb.Mutation_TestHook:
		return true
	case *fsmpb.Mutation_Group:
		return !slices.ContainsFunc(op.Group.GetMutations(), func(part *fsmpb.Mutation) bool { return !forCalls(part) })
	}
	return false
}
