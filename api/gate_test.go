package api

import (
	"context"
	"net/http"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"osqueue/api/core"
	"osqueue/cluster"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/auth"
)

// recordedWrites is a Writer that keeps the mutations that reach it.
type recordedWrites struct{ got []*fsmpb.Mutation }

// Propose implements Writer.
func (r *recordedWrites) Propose(_ context.Context, m *fsmpb.Mutation) (fsm.Result, fsm.LSN, error) {
	r.got = append(r.got, m)
	return fsm.Result{}, fsm.LSN{}, nil
}

// ProposeWithin implements Writer.
func (r *recordedWrites) ProposeWithin(_ context.Context, ms []*fsmpb.Mutation, _ time.Duration) ([]fsm.Result, fsm.LSN, error) {
	r.got = append(r.got, ms...)
	return make([]fsm.Result, len(ms)), fsm.LSN{}, nil
}

// AwaitClaim implements Writer.
func (r *recordedWrites) AwaitClaim(_ context.Context, _ <-chan struct{}, m *fsmpb.Mutation) (cluster.Awaited, error) {
	r.got = append(r.got, m)
	return cluster.Awaited{}, nil
}

// everyMutation calls f with a mutation of each kind that the machine knows, whose fields a handler has filled with the
// names of others.
func everyMutation(f func(kind string, m *fsmpb.Mutation)) {
	fields := (&fsmpb.Mutation{}).ProtoReflect().Descriptor().Oneofs().ByName("op").Fields()
	for i := range fields.Len() {
		m := &fsmpb.Mutation{Tenant: "another", Actor: "another"}
		r := m.ProtoReflect()
		r.Set(fields.Get(i), protoreflect.ValueOfMessage(filled(r.NewField(fields.Get(i)).Message(), 4)))
		if group := m.GetGroup(); group != nil {
			group.Mutations = []*fsmpb.Mutation{{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{Owner: 77, Lease: &fsmpb.Lease{JobId: "x"}}}}}
		}
		f(string(fields.Get(i).Name()), m)
	}
}

// filled fills the fields of a message: texts with a name, numbers with 77.
func filled(m protoreflect.Message, depth int) protoreflect.Message {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		switch {
		case fd.IsMap() || fd.Message() != nil && depth == 0 || fd.ContainingOneof() != nil && !fd.HasOptionalKeyword():
		case fd.IsList() && fd.Message() != nil:
			list := m.Mutable(fd).List()
			list.Append(protoreflect.ValueOfMessage(filled(list.NewElement().Message(), depth-1)))
		case fd.IsList() && fd.Kind() == protoreflect.StringKind:
			m.Mutable(fd).List().Append(protoreflect.ValueOfString("bank"))
		case fd.IsList():
		case fd.Message() != nil:
			m.Set(fd, protoreflect.ValueOfMessage(filled(m.NewField(fd).Message(), depth-1)))
		case fd.Kind() == protoreflect.StringKind:
			m.Set(fd, protoreflect.ValueOfString("bank"))
		case fd.Kind() == protoreflect.Fixed64Kind:
			m.Set(fd, protoreflect.ValueOfUint64(77))
		default:
		}
	}
	return m
}

// ownersIn returns the owners in a message.
func ownersIn(m protoreflect.Message) (owners []uint64) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Name() == "owner" && fd.Kind() == protoreflect.Fixed64Kind:
			owners = append(owners, v.Uint())
		case fd.IsList() && fd.Message() != nil:
			for i := range v.List().Len() {
				owners = append(owners, ownersIn(v.List().Get(i).Message())...)
			}
		case fd.Message() != nil && !fd.IsMap():
			owners = append(owners, ownersIn(v.Message())...)
		}
		return true
	})
	return owners
}

// throughTheGate proposes m for a caller in all ways that the gate has, and returns what reached the log.
func throughTheGate(g *rig, p *auth.Principal, m *fsmpb.Mutation) ([]*fsmpb.Mutation, error) {
	g.t.Helper()
	r := new(recordedWrites)
	g.s.Gate.To = r
	c := &core.Call{Core: g.s.Core, Ctx: g.t.Context(), Route: &core.Route{Method: http.MethodPost, Path: "x", At: core.LeaderOnly}, Principal: p}
	_, _, err := g.s.Gate.Propose(c, m)
	_, errAwait := g.s.Gate.Await(g.t.Context(), c, nil, m)
	errAlive := g.s.Gate.KeepAlive(g.t.Context(), c, m)
	if (err == nil) != (errAwait == nil) || (err == nil) != (errAlive == nil) {
		g.t.Errorf("the ways through the gate differ: %v, %v, %v", err, errAwait, errAlive)
	}
	if want := 3; err == nil && len(r.got) != want || err != nil && len(r.got) != 0 {
		g.t.Errorf("%d mutations have reached the log after %v", len(r.got), err)
	}
	return r.got, err
}

// A mutation without a caller has no tenant, no actor and no owner, whatever a handler has put into it, in every mode.
func TestWritesWithoutIdentityAreNobodys(t *testing.T) {
	for _, mode := range []string{core.SecurityOff, core.SecurityLog, core.SecurityOn} {
		g := newRig(t, func(c *core.Config) { c.Security.Mode = mode })
		everyMutation(func(kind string, m *fsmpb.Mutation) {
			got, err := throughTheGate(g, nil, m)
			if err != nil && err.Error() != "no call may propose this mutation" {
				t.Errorf("%s: %v", kind, err)
			}
			for _, m := range got {
				if owners := ownersIn(m.ProtoReflect()); m.Tenant != "" || m.Actor != "" || len(owners) > 0 {
					t.Errorf("%s: %s has the tenant %q, the actor %q and the owners %v", mode, kind, m.Tenant, m.Actor, owners)
				}
			}
		})
	}
}

// No mutation passes the gate as that of another tenant or owner, or outside of the scope of its caller. The table has
// the kinds that a limited caller may propose with any names: the machine compares their owner, or nothing has the
// names yet. A new kind of mutation is refused, or stands here.
func TestNoMutationPassesTheGateForAnotherTenant(t *testing.T) {
	g := newRig(t, func(c *core.Config) { c.Security.Mode = core.SecurityOn })
	p := &auth.Principal{
		Kind: auth.KindToken, ID: "t1", Tenant: "mine", Owner: 5, Rights: ^auth.Right(0), Programs: true,
		Types: []string{"mail"}, Groups: nil, Account: "t1", MaxJobs: 10,
	}
	passes := map[string]bool{
		"heartbeat": true, "complete": true, "fail": true, "release": true, "group": true, // by owner
		"force_complete": true, "change": true, "edit_job": true, // of jobs that do not exist; bound to none
		"reserve_artefact": true, "attach_artefact": true, // of the caller's own artefacts; of a lease by owner
		"set_limit": true, "throttle_limit": true, // of the caller's own limits; of a lease by owner
		"store_step": true, "suspend": true, // by owner
		"send_signal": true, "make_link": true, "retry_flow": true, // of jobs that do not exist; bound to none
		"pause_cron": true, "delete_cron": true, "trigger_cron": true, // of the caller's own schedules
	}
	everyMutation(func(kind string, m *fsmpb.Mutation) {
		if op := m.GetChange(); op != nil {
			op.Filter = nil
		}
		got, err := throughTheGate(g, p, m)
		if (err == nil) != passes[kind] {
			t.Errorf("%s: a caller that is limited to other types gets %v", kind, err)
		}
		for _, m := range got {
			if m.Tenant != "mine" || m.Actor != p.Actor() {
				t.Errorf("%s has the tenant %q and the actor %q", kind, m.Tenant, m.Actor)
			}
			for _, owner := range ownersIn(m.ProtoReflect()) {
				if owner != p.Owner {
					t.Errorf("%s has the owner %d", kind, owner)
				}
			}
			for _, seq := range append(m.GetChange().GetSeqs(), m.GetForceComplete().GetSeq(), m.GetEditJob().GetSeq()) {
				if seq != 0 && g.node.Job("bank") == nil && seq != ^uint64(0) {
					t.Errorf("%s names the job %d", kind, seq)
				}
			}
		}
	})
	// What it may name does pass, with its tenant and its quota.
	got, err := throughTheGate(g, p, core.EnqueueOf([]*fsmpb.NewJob{{Id: "a", Type: "mail"}}))
	if err != nil || got[0].Tenant != "mine" || got[0].GetEnqueue().GetJobs()[0].GetQuota().GetAccount() != "t1" || got[0].GetEnqueue().GetScope() == nil {
		t.Errorf("%v, %v", got, err)
	}
	if got, err = throughTheGate(g, p, &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: "w", Types: []string{"mail"}}}}); err != nil || got[0].GetClaim().GetOwner() != p.Owner {
		t.Errorf("%v, %v", got, err)
	}
}

// No call proposes what is for the leader and the server, whoever asks: not an administrator, and not a caller without identity.
func TestNoCallProposesWhatOnlyTheLeaderMay(t *testing.T) {
	leaders := map[string]bool{
		"register_broker": true, "fire_cron": true, "announce": true, "raise_level": true, "check_state": true, "state_checked": true,
		"touch_tokens": true, "report_hook": true, "set_alert": true,
	}
	g := newRig(t, func(c *core.Config) { c.Security.Mode = core.SecurityOn })
	admin := &auth.Principal{Kind: auth.KindToken, ID: "t1", Rights: ^auth.Right(0), Programs: true}
	met := 0
	everyMutation(func(kind string, m *fsmpb.Mutation) {
		if !leaders[kind] {
			return
		}
		met++
		for _, p := range []*auth.Principal{admin, nil} {
			if got, err := throughTheGate(g, p, m); err == nil {
				t.Errorf("%s passes: %v", kind, got)
			}
		}
	})
	if met != len(leaders) {
		t.Errorf("%d of %d kinds were tried", met, len(leaders))
	}
}

// Only the gate can write: the server keeps its node without the methods that do.
func TestOnlyTheGateHasTheWriter(t *testing.T) {
	g := newRig(t)
	if g.s.Config.Backend != nil {
		t.Error("the configuration of the server has the writer")
	}
}
