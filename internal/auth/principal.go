package auth

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/url"
	"path"
	"strings"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/tenants"
	"osqueue/internal/limit"
)

// ErrDenied is wrapped by the errors about a request that its principal may not make.
var ErrDenied = errors.New("not allowed")

// ErrHidden is wrapped by the errors about an object that does not exist for the principal.
var ErrHidden = fmt.Errorf("%w: hidden", ErrDenied)

// Principal is the identity behind a request. It is immutable.
type Principal struct {
	Kind       Kind
	ID         string // for logs: of the token, or the kind and the name
	Role       fsm.Role
	Rights     Right
	Types      []string // globs; none: all
	Groups     []string
	Programs   bool
	MaxPayload int64
	RateMilli  int64  // requests per second to one node, in thousandths; 0: no limit
	Burst      int64  // requests that may come at once; less than 1 counts as 1
	ExpiresAt  int64  // ms, the first moment at which it is invalid; 0: never
	Owner      uint64 // of its claims; never 0
	MaxJobs    int64  // that it enqueued and that have not ended; 0: no limit
	MaxBytes   int64  // of the payloads of these jobs; 0: no limit
	Tenant     string // owner of the objects that it makes (tenants.Owned); "": it is not limited
	Account    string // under which the state counts these jobs; all tokens of a family share one
	actor      string // see Actor; "": ID
}

// Kind is the way in which a principal has proved its identity.
type Kind string

// The kinds of principals.
const (
	KindToken       Kind = "token"
	KindLocal       Kind = "local" // the admin socket
	KindJWT         Kind = "oidc"
	KindCertificate Kind = "cert"
	KindLegacy      Kind = "legacy" // the legacy listener
)

// OfToken returns the principal of a token.
func OfToken(t *fsm.Token) *Principal {
	family, role := t.FamilyID(), fsm.Role(t.Role)
	return &Principal{
		Kind: KindToken, ID: t.Id, Role: role, Rights: RightsOf(role), Types: t.Types, Groups: t.Groups,
		Programs: t.Programs || role == fsm.RoleAdmin, MaxPayload: t.MaxPayload, Owner: ownerOf("token:" + family),
		RateMilli: t.RateMilli, Burst: t.Burst, ExpiresAt: t.ExpiresMs,
		MaxJobs: t.MaxJobs, MaxBytes: t.MaxBytes, Account: family, Tenant: t.TenantID(), actor: actorOfToken(t),
	}
}

// LocalAdmin is the principal of the admin socket of a node.
func LocalAdmin() *Principal {
	return &Principal{Kind: KindLocal, ID: "local-admin", Role: fsm.RoleAdmin, Rights: RightsOf(fsm.RoleAdmin), Programs: true, Owner: ownerOf("local-admin")}
}

// ownerOf returns the number by which the state knows an identity.
func ownerOf(identity string) uint64 {
	sum := sha256.Sum256([]byte(identity))
	return max(binary.BigEndian.Uint64(sum[:8]), 1)
}

// Has reports whether the principal has one of the rights.
func (p *Principal) Has(some Right) bool { return p.Rights&some != 0 }

// Scoped reports whether the principal is limited to some types or groups.
func (p *Principal) Scoped() bool { return len(p.Types) > 0 || len(p.Groups) > 0 }

// CheckType returns an error if a type is not in the scope.
func (p *Principal) CheckType(name string) error {
	if tenants.Within(p.Types, name) {
		return nil
	}
	return p.deny("type %q", name)
}

// CheckWholeType returns an error if something that concerns all jobs of a type, such as its
// settings and its counts, is not in the scope.
func (p *Principal) CheckWholeType(name string) error {
	if len(p.Groups) > 0 {
		return p.deny("type %q with all of its groups", name)
	}
	return p.CheckType(name)
}

func (p *Principal) checkGroup(name string) error {
	if tenants.Within(p.Groups, name) {
		return nil
	}
	return p.deny("group %q", name)
}

func (p *Principal) deny(format string, args ...any) error {
	return fmt.Errorf("%w: %s is not in the scope of %s", ErrDenied, fmt.Sprintf(format, args...), p)
}

// String names the principal for messages.
func (p *Principal) String() string {
	if p.Kind == KindToken {
		return "token " + p.ID
	}
	return p.ID
}

// CheckGlobs returns an error for a glob that matches nothing because it is malformed.
func CheckGlobs(globs []string) error {
	for _, glob := range globs {
		if _, err := path.Match(glob, ""); err != nil {
			return fmt.Errorf("%q is not a pattern of path.Match, such as mail or film.*", glob)
		}
	}
	return nil
}

// Rules are the settings of a server that the checks depend on.
type Rules struct {
	// Programs are globs of the types whose workers run programs from the payload.
	Programs []string
	// Job returns the job with that id, or nil.
	Job func(id string) *fsm.Job
	// Cron returns the schedule to which the caller gives the name, or nil.
	Cron func(name string) *fsm.Cron
}

// CheckWrite returns an error that wraps ErrDenied if the mutation is outside of the scope.
func (p *Principal) CheckWrite(m *fsmpb.Mutation, r Rules) error {
	switch op := m.GetOp().(type) {
	case *fsmpb.Mutation_Enqueue:
		return p.checkEnqueue(op.Enqueue, r)
	case *fsmpb.Mutation_Claim:
		return p.checkClaim(op.Claim)
	case *fsmpb.Mutation_Group:
		for _, part := range op.Group.GetMutations() {
			if err := p.CheckWrite(part, r); err != nil {
				return err
			}
		}
		return nil
	case *fsmpb.Mutation_PutCron:
		if err := p.checkCron(op.PutCron.GetName(), r); err != nil {
			return err
		}
		return p.checkJob(op.PutCron.GetJob(), r)
	}
	if !p.Scoped() {
		return nil
	}
	return p.checkScoped(m, r)
}

func (p *Principal) checkEnqueue(op *fsmpb.Enqueue, r Rules) error {
	if op.Parent == nil && p.Role == fsm.RoleWorker {
		return fmt.Errorf("%w: %s may only add children of a job that it runs", ErrDenied, p)
	}
	for _, j := range op.GetJobs() {
		if err := p.checkJob(j, r); err != nil {
			return err
		}
	}
	if callback := op.GetNewBatch().GetCallback(); callback != nil {
		return p.checkJob(callback, r)
	}
	return nil
}

func (p *Principal) checkJob(j *fsmpb.NewJob, r Rules) error {
	if err := p.CheckScope(j.GetType(), j.GetOptions().GetGroup()); err != nil {
		return err
	}
	if p.MaxPayload > 0 && int64(len(j.GetPayload())) > p.MaxPayload {
		return fmt.Errorf("%w: the payload has %d bytes; %s may send %d", ErrDenied, len(j.GetPayload()), p, p.MaxPayload)
	}
	if !p.Programs && len(r.Programs) > 0 && tenants.Within(r.Programs, j.GetType()) {
		return fmt.Errorf("%w: jobs of type %q run programs, for which %s lacks the right (programs)", ErrDenied, j.GetType(), p)
	}
	return nil
}

func (p *Principal) checkClaim(op *fsmpb.Claim) error {
	if len(p.Groups) > 0 {
		return p.deny("a claim, which takes jobs of every group,")
	}
	return p.checkTypes(&op.Types, "a claim")
}

// checkTypes checks the types that a claim or a worker names; none stands for all.
func (p *Principal) checkTypes(types *[]string, what string) error {
	if names := p.names(); p.Kind == KindLegacy && len(*types) == 0 && names != nil {
		*types = names // the clients of dtq cannot name types
	}
	if len(p.Types) > 0 && len(*types) == 0 {
		return p.deny("%s without types", what)
	}
	for _, t := range *types {
		if err := p.CheckType(t); err != nil {
			return err
		}
	}
	return nil
}

// checkScoped checks the writes that concern existing things. Reports on leases are bound to
// the owner of the claim and need no scope.
func (p *Principal) checkScoped(m *fsmpb.Mutation, r Rules) error {
	switch op := m.GetOp().(type) {
	case *fsmpb.Mutation_Heartbeat, *fsmpb.Mutation_Complete, *fsmpb.Mutation_Fail, *fsmpb.Mutation_Release,
		*fsmpb.Mutation_StoreStep, *fsmpb.Mutation_Suspend, *fsmpb.Mutation_ReserveArtefact, *fsmpb.Mutation_AttachArtefact:
		return nil
	case *fsmpb.Mutation_SendSignal:
		return p.checkExisting(op.SendSignal.GetJobId(), r)
	case *fsmpb.Mutation_MakeLink:
		return p.checkExisting(op.MakeLink.GetJobId(), r)
	case *fsmpb.Mutation_RetryFlow:
		return p.checkExisting(op.RetryFlow.GetJobId(), r)
	case *fsmpb.Mutation_SetLimit:
		return p.checkLimit(op.SetLimit.GetPattern())
	case *fsmpb.Mutation_ThrottleLimit:
		if op.ThrottleLimit.Lease != nil {
			return nil
		}
		return p.checkLimit(op.ThrottleLimit.GetKey())
	case *fsmpb.Mutation_RegisterWorker:
		if p.Kind == KindLegacy {
			return nil // the clients of dtq cannot name types
		}
		return p.checkTypes(&op.RegisterWorker.Types, "a worker")
	case *fsmpb.Mutation_ForceComplete:
		return p.checkExisting(op.ForceComplete.GetJobId(), r)
	case *fsmpb.Mutation_EditJob:
		return p.checkExisting(op.EditJob.GetId(), r)
	case *fsmpb.Mutation_Change:
		return p.checkChange(op.Change, r)
	case *fsmpb.Mutation_SetQueue:
		return p.CheckWholeType(op.SetQueue.GetName())
	case *fsmpb.Mutation_PauseCron:
		return p.checkCron(op.PauseCron.GetName(), r)
	case *fsmpb.Mutation_DeleteCron:
		return p.checkCron(op.DeleteCron.GetName(), r)
	case *fsmpb.Mutation_TriggerCron:
		return p.checkCron(op.TriggerCron.GetName(), r)
	}
	return p.deny("this request, which concerns all types,")
}

// checkLimit checks the key or pattern of a limit. It belongs to the tenant of the caller; without a tenant it concerns
// the jobs of all callers.
func (p *Principal) checkLimit(name string) error {
	if p.Tenant == "" {
		return p.deny("limit %q", name)
	}
	return nil
}

func (p *Principal) checkChange(op *fsmpb.Change, r Rules) error {
	if f := op.GetFilter(); f != nil {
		if f.Type == nil && len(p.Types) > 0 || f.Group == nil && len(p.Groups) > 0 {
			return p.deny("a filter without a type, or without a group,")
		}
		if err := p.CheckType(f.GetType()); f.Type != nil && err != nil {
			return err
		}
		if f.Group != nil {
			return p.checkGroup(f.GetGroup())
		}
		return nil
	}
	for _, id := range op.GetIds() {
		if err := p.checkExisting(id, r); err != nil {
			return err
		}
	}
	return nil
}

// CheckJob returns an error that wraps ErrHidden if an existing job is not in the scope.
func (p *Principal) CheckJob(j *fsm.Job) error {
	if p.CheckScope(j.Type, j.Options().Group) != nil {
		return fmt.Errorf("%w: job %q is not in the scope of %s", ErrHidden, j.ID, p)
	}
	return nil
}

// Bind binds a mutation about jobs by id to the jobs that are in the scope: between the check
// and the entry that applies the mutation, an id may pass to a job of another owner. For the ids of
// other jobs the machine answers that they do not exist. The machine itself finds out for which jobs
// a new one may wait.
func (p *Principal) Bind(m *fsmpb.Mutation, r Rules) {
	if !p.Scoped() {
		return
	}
	if op := m.GetEnqueue(); op != nil {
		op.Scope = &fsmpb.Scope{Types: p.Types, Groups: p.Groups}
	}
	if op := m.GetForceComplete(); op != nil {
		op.Seq = p.seqOf(op.JobId, r)
	}
	if op := m.GetEditJob(); op != nil {
		op.Seq = p.seqOf(op.Id, r)
	}
	if op := m.GetSendSignal(); op != nil {
		op.Seq = p.seqOf(op.JobId, r)
	}
	if op := m.GetMakeLink(); op != nil {
		op.Seq = p.seqOf(op.JobId, r)
	}
	if op := m.GetRetryFlow(); op != nil {
		op.Seq = p.seqOf(op.JobId, r)
	}
	if op := m.GetChange(); op != nil && op.Filter == nil {
		op.Seqs = make([]uint64, len(op.Ids))
		for i, id := range op.Ids {
			op.Seqs[i] = p.seqOf(id, r)
		}
	}
}

// seqOf returns the Seq of a job in the scope, or one that no job has.
func (p *Principal) seqOf(id string, r Rules) uint64 {
	if j := r.Job(id); j != nil && p.CheckJob(j) == nil {
		return j.Seq
	}
	return math.MaxUint64
}

// CheckScope returns an error if a job of a type and a group is not in the scope of the principal.
func (p *Principal) CheckScope(jobType, group string) error {
	if err := p.CheckType(jobType); err != nil {
		return err
	}
	return p.checkGroup(group)
}

func (p *Principal) checkExisting(id string, r Rules) error {
	if j := r.Job(id); j != nil {
		return p.CheckJob(j)
	}
	return nil // the machine says that it does not exist
}

func (p *Principal) checkCron(name string, r Rules) error {
	c := r.Cron(name)
	switch {
	case c == nil:
		return nil
	case p.CheckScope(c.Job.GetType(), c.Job.GetOptions().GetGroup()) != nil:
		return p.deny("schedule %q", name) // whose type and group the caller may not learn
	}
	return p.checkJob(c.Job, r)
}

// Count makes whatever a mutation makes the state keep count in the quota of the principal, if it
// has one: jobs, batches with their callbacks, schedules, and registrations of workers. Without limits they are only counted.
func (p *Principal) Count(m *fsmpb.Mutation, limits bool) {
	if p.MaxJobs == 0 && p.MaxBytes == 0 {
		return
	}
	quota := &fsmpb.Quota{Account: p.Account}
	if limits {
		quota.MaxJobs, quota.MaxBytes = p.MaxJobs, p.MaxBytes
	}
	switch op := m.GetOp().(type) {
	case *fsmpb.Mutation_RegisterWorker:
		op.RegisterWorker.Quota = quota
	case *fsmpb.Mutation_Enqueue:
		for _, j := range op.Enqueue.GetJobs() {
			j.Quota = quota
		}
		if batch := op.Enqueue.GetNewBatch(); batch != nil {
			batch.Quota = quota
			if batch.Callback != nil {
				batch.Callback.Quota = quota
			}
		}
	case *fsmpb.Mutation_ReserveArtefact:
		op.ReserveArtefact.Quota = quota
	case *fsmpb.Mutation_EditJob:
		op.EditJob.Quota = quota
	case *fsmpb.Mutation_PutCron:
		op.PutCron.Job.Quota = quota
	}
}

// Own makes the principal the owner of a claim or report.
func (p *Principal) Own(m *fsmpb.Mutation) {
	switch op := m.GetOp().(type) {
	case *fsmpb.Mutation_Claim:
		op.Claim.Owner = p.Owner
	case *fsmpb.Mutation_Heartbeat:
		op.Heartbeat.Owner = p.Owner
	case *fsmpb.Mutation_Complete:
		op.Complete.Owner = p.Owner
	case *fsmpb.Mutation_Fail:
		op.Fail.Owner = p.Owner
	case *fsmpb.Mutation_Release:
		op.Release.Owner = p.Owner
	case *fsmpb.Mutation_ThrottleLimit:
		op.ThrottleLimit.Owner = p.Owner
	case *fsmpb.Mutation_StoreStep:
		op.StoreStep.Owner = p.Owner
	case *fsmpb.Mutation_AttachArtefact:
		op.AttachArtefact.Owner = p.Owner
	case *fsmpb.Mutation_Suspend:
		op.Suspend.Owner = p.Owner
	case *fsmpb.Mutation_Enqueue:
		if op.Enqueue.Parent != nil {
			op.Enqueue.Parent.Owner = p.Owner
		}
	case *fsmpb.Mutation_Group:
		for _, part := range op.Group.GetMutations() {
			p.Own(part)
		}
	}
}

func actorOfToken(t *fsm.Token) string {
	actor := "token " + t.Id
	if t.Name != "" {
		actor += " (" + t.Name + ")"
	}
	return boundedActor(actor)
}

func boundedActor(s string) string { return limit.Clip(strings.ToValidUTF8(s, "\uFFFD"), fsm.ActorMax) }

// Actor names the principal in events: "token ID (NAME)", or its ID. It has at most
// fsm.ActorMax bytes of UTF-8, and no secret.
func (p *Principal) Actor() string {
	if p.actor != "" {
		return p.actor
	}
	return boundedActor(p.ID)
}

// legacyID is the id of the principal of legacy clients.
const legacyID = "legacy"

// Legacy returns the principal of all clients of the legacy listener. globs are those of the
// types that they may use; none: all. Package api limits it to the routes of legacy clients, so
// it has no role.
func Legacy(globs []string) *Principal {
	return &Principal{Kind: KindLegacy, ID: legacyID, Types: globs, Owner: ownerOf(legacyID)}
}

// Text returns the principal as one node gives it to another, for a principal without a
// credential that the other could check.
func (p *Principal) Text() string {
	if p.Kind != KindLegacy {
		return p.ID
	}
	return legacyID + "?" + url.Values{"type": p.Types}.Encode()
}

// ParseLegacy reads the text of the principal of legacy clients. It returns nil if the text is
// none, or has a glob that is malformed.
func ParseLegacy(text string) *Principal {
	query, is := strings.CutPrefix(text, legacyID+"?")
	if !is {
		return nil
	}
	values, err := url.ParseQuery(query)
	if err != nil || CheckGlobs(values["type"]) != nil {
		return nil
	}
	return Legacy(values["type"])
}

// names returns the types of a principal if they are names without a wildcard, else nil.
func (p *Principal) names() []string {
	for _, glob := range p.Types {
		if strings.ContainsAny(glob, `*?[\`) {
			return nil
		}
	}
	return p.Types
}
