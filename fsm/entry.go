package fsm

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"unicode/utf8"

	"osqueue/fsm/artefacts"
	"osqueue/fsm/backoff"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
	"osqueue/fsm/onerror"
	"osqueue/fsm/outbox"
	"osqueue/fsm/tenants"
	"osqueue/fsm/tokens"
	"osqueue/fsm/usage"
)

// ErrEntry is wrapped by the errors of EncodeEntry and DecodeEntry. A node that meets
// such an entry must stop: if it skipped the entry, its state would differ from that of
// the other nodes.
var ErrEntry = errors.New("log entry cannot be applied")

// EncodeEntry sets b.Version to the lowest feature level that describes b, and returns
// the log form of b. It refuses the entries that DecodeEntry refuses, because such an
// entry stops every node once it is committed.
func EncodeEntry(b *fsmpb.Batch) ([]byte, error) {
	b.Version = levelOfEntry(b)
	if err := checkBatch(b); err != nil {
		return nil, fmt.Errorf("encode log entry: %w", err)
	}
	data, err := b.MarshalVT()
	if err != nil {
		return nil, fmt.Errorf("encode log entry: %w", err)
	}
	return data, nil
}

// DecodeEntry reads a log entry. The batch shares memory with data.
//
// It refuses fields and values that this version does not know, at any depth: a newer
// node would have acted on them.
func DecodeEntry(data []byte) (*fsmpb.Batch, error) {
	b := new(fsmpb.Batch)
	err := b.Decode(data)
	if b.Version > MaxLevel { // checked first: it explains the errors below
		return nil, fmt.Errorf("%w: version %d is unknown (newest known: %d); upgrade this node",
			ErrEntry, b.Version, MaxLevel)
	}
	if err == nil {
		err = checkBatch(b)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	for _, m := range b.Mutations {
		tenants.Settle(m)
	}
	return b, nil
}

var (
	errNoVersion = errors.New("the version is missing: this is not a log entry")
	errUnknown   = errors.New("the entry has unknown fields, or a mutation without content; upgrade this node")
	errNoOp      = errors.New("the kind of the mutation is missing or unknown; upgrade this node")
	errNoLease   = errors.New("the lease is missing")
	errStep      = errors.New("a step, signal, link or suspension has an invalid name, value or time")
	errNewValue  = errors.New("a value is missing or unknown; upgrade this node")
	errLog       = errors.New("the log of the attempt is not UTF-8, or too long")
	errNested    = errors.New("a group contains another group, or a mutation with its own request key, actor or tenant")
	errSeqs      = errors.New("a change of jobs has another number of ids than of Seqs")
	errActor     = errors.New("the actor is not UTF-8, or too long")
)

// checkBatch makes Apply total: in a batch that passes, no nested message is nil, and
// Apply knows every field.
func checkBatch(b *fsmpb.Batch) error {
	if b.Version == 0 {
		return errNoVersion
	}
	for i, m := range b.Mutations {
		if err := checkMutation(m); err != nil {
			return fmt.Errorf("mutation %d: %w", i, err)
		}
	}
	if fsmpb.HasUnknown(b) {
		return errUnknown
	}
	return nil
}

// checkMutation refuses what Apply cannot decide.
func checkMutation(m *fsmpb.Mutation) error {
	if a := m.GetActor(); len(a) > ActorMax || !utf8.ValidString(a) {
		return errActor
	}
	if err := tenants.Check(m.GetTenant()); err != nil {
		return err
	}
	switch op := m.GetOp().(type) {
	case nil:
		return errNoOp
	case *fsmpb.Mutation_Enqueue:
		return checkEnqueue(op.Enqueue)
	case *fsmpb.Mutation_Complete:
		return cmp.Or(need(op.Complete.GetLease() != nil, errNoLease), need(len(op.Complete.GetLog()) <= LogMax && utf8.ValidString(op.Complete.GetLog()), errLog))
	case *fsmpb.Mutation_Fail:
		return cmp.Or(need(op.Fail.GetLease() != nil, errNoLease), need(onerror.ValidClass(op.Fail.GetClass()), errNewValue))
	case *fsmpb.Mutation_Release:
		return need(op.Release.GetLease() != nil, errNoLease)
	case *fsmpb.Mutation_RegisterWorker:
		return usage.CheckQuota(op.RegisterWorker.GetQuota())
	case *fsmpb.Mutation_SetQuiet:
		return need(validQuieter(op.SetQuiet.GetBy()), errQuiet)
	case *fsmpb.Mutation_Change:
		return checkChange(op.Change)
	case *fsmpb.Mutation_EditJob:
		return cmp.Or(job.CheckLimits(op.EditJob.GetLimits().GetLimits()), usage.CheckQuota(op.EditJob.GetQuota()))
	case *fsmpb.Mutation_SetQueue:
		return cmp.Or(need(op.SetQueue.GetBackoff().GetKind() < uint32(backoff.NumKinds), errNewValue), checkPause(op.SetQueue))
	case *fsmpb.Mutation_SetLimit:
		return need(job.ValidPattern(op.SetLimit.GetPattern()) && validRule(op.SetLimit.GetRule()), job.ErrLimits)
	case *fsmpb.Mutation_ThrottleLimit:
		return need(job.ValidKey(op.ThrottleLimit.GetKey()), job.ErrLimits)
	case *fsmpb.Mutation_StoreStep:
		return cmp.Or(need(op.StoreStep.GetLease() != nil, errNoLease), need(validStep(op.StoreStep.GetName(), op.StoreStep.GetValue()), errStep))
	case *fsmpb.Mutation_Suspend:
		s := op.Suspend
		once := (s.GetUntilMs() > 0) != (s.GetBatch() != "") && (s.GetSignal() == "" || s.GetBatch() == "" && validStep(s.GetSignal(), nil))
		return cmp.Or(need(s.GetLease() != nil, errNoLease), need(once, errStep))
	case *fsmpb.Mutation_SendSignal:
		s := op.SendSignal
		known := len(s.GetId()) <= signalIDMax && utf8.ValidString(s.GetId()) && (len(s.GetLink()) == 0 || len(s.GetLink()) == sha256.Size)
		return need(known && validStep(s.GetName(), s.GetValue()), errStep)
	case *fsmpb.Mutation_MakeLink:
		return need(validStep(op.MakeLink.GetSignal(), nil) && len(op.MakeLink.GetHash()) == sha256.Size && op.MakeLink.GetUntilMs() > 0, errStep)
	case *fsmpb.Mutation_ReserveArtefact:
		return cmp.Or(artefacts.CheckReserve(op.ReserveArtefact), usage.CheckQuota(op.ReserveArtefact.GetQuota()))
	case *fsmpb.Mutation_AttachArtefact:
		return cmp.Or(need(op.AttachArtefact.GetLease() != nil, errNoLease), artefacts.CheckNamed([]*fsmpb.NamedArtefact{op.AttachArtefact.GetArtefact()}))
	case *fsmpb.Mutation_Group:
		return checkGroup(op.Group)
	case *fsmpb.Mutation_Announce:
		return need(op.Announce.GetKind() > 0 && op.Announce.GetKind() < numAnnounces, errNewValue)
	case *fsmpb.Mutation_RaiseLevel:
		return need(op.RaiseLevel.GetLevel() >= BaseLevel && op.RaiseLevel.GetLevel() <= MaxLevel, errNewValue)
	case *fsmpb.Mutation_StateChecked:
		return need(len(op.StateChecked.GetSum()) == sha256.Size, errNewValue)
	case *fsmpb.Mutation_PutCron:
		known := op.PutCron.GetJob() != nil && op.PutCron.Overlap < numOverlaps && op.PutCron.Missed < numMissed && op.PutCron.Job.GetOptions().GetUnique().GetOnConflict() == 0 && len(op.PutCron.Job.GetArtefacts()) == 0
		return cmp.Or(need(known, errNewValue), checkNewJob(op.PutCron.GetJob()), CheckCronHeaders(op.PutCron.GetJob().GetOptions().GetHeaders()))
	case *fsmpb.Mutation_CreateToken:
		t := op.CreateToken.GetToken()
		fresh := t.GetCreatedMs() == 0 && t.GetUsedMs() == 0 && op.CreateToken.GetOverlapMs() >= 0
		return cmp.Or(need(fresh, tokens.ErrValue), tokens.Check(t))
	case *fsmpb.Mutation_RevokeToken:
		return need(op.RevokeToken.GetOverlapMs() >= 0, errNewValue)
	case *fsmpb.Mutation_PutHook:
		return cmp.Or(need(op.PutHook.GetOverlapMs() >= 0, outbox.ErrValue), outbox.CheckNew(op.PutHook.GetHook()))
	case *fsmpb.Mutation_ReportHook:
		return need(utf8.ValidString(op.ReportHook.GetError()), outbox.ErrValue) // outbox.Check would refuse the state
	case *fsmpb.Mutation_SetAlert:
		return outbox.CheckAlert(op.SetAlert)
	}
	return nil
}

func checkEnqueue(op *fsmpb.Enqueue) error {
	if p := op.GetParent(); p != nil && p.Lease == nil {
		return errNoLease
	}
	for _, n := range op.GetJobs() {
		if err := checkNewJob(n); err != nil {
			return err
		}
	}
	if b := op.GetNewBatch(); b != nil {
		if b.CallbackOn >= numCallbacks {
			return errNewValue
		}
		return cmp.Or(need(b.Callback.GetOptions().GetUnique().GetOnConflict() == 0 && len(b.Callback.GetArtefacts()) == 0, errNewValue), usage.CheckQuota(b.Quota), checkNewJob(b.Callback))
	}
	return nil
}

func checkNewJob(n *fsmpb.NewJob) error {
	o := n.GetOptions()
	u := o.GetUnique()
	known := u.GetOnConflict() < job.NumConflicts && (u.GetOnConflict() == 0 || u.GetScope() == uint32(UniqueWaiting)) && o.GetBackoff().GetKind() < uint32(backoff.NumKinds) && u.GetScope() < job.NumScopes &&
		o.GetAfterFailure() < job.NumAfters && (len(o.GetAfterNames()) == 0 || len(o.GetAfterNames()) == len(job.Distinct(o.GetAfter())))
	if !known {
		return errNewValue
	}
	if err := cmp.Or(onerror.Check(o.GetOnError()), job.CheckLimits(o.GetLimits()), job.CheckHeaders(o.GetHeaders()), artefacts.CheckNamed(n.GetArtefacts())); err != nil {
		return err
	}
	return usage.CheckQuota(n.GetQuota())
}

func checkChange(op *fsmpb.Change) error {
	for _, s := range op.GetFilter().GetStatuses() {
		if s >= job.NumStatuses {
			return errNewValue
		}
	}
	if n := len(op.GetSeqs()); n != 0 && n != len(op.Ids) {
		return errSeqs
	}
	return need(op.GetKind() > 0 && op.GetKind() <= numChanges, errNewValue)
}

// checkGroup checks a mutation list. It refuses nested lists, whose depth would have no
// limit.
func checkGroup(op *fsmpb.Group) error {
	for _, m := range op.GetMutations() {
		if m.GetGroup() != nil || m.GetRequest() != nil || m.GetActor() != "" || m.GetTenant() != "" {
			return errNested
		}
		if err := checkMutation(m); err != nil {
			return err
		}
	}
	return nil
}

func need(ok bool, err error) error {
	if ok {
		return nil
	}
	return err
}

// BaseLevel is the lowest feature level. A feature level selects the rules that a state follows and the
// fields that it may have. It is part of the state and only grows (RaiseLevel). A changed
// rule checks it (m.Level() >= …), so that nodes of two releases decide alike until all of
// them know the new rule. Entries carry the lowest level that describes them: until the
// level is raised, nodes of both releases read all of them.
//
// There is one level. A program that is built with the tag nextlevel knows a second one,
// with a rule of its own (level_next.go), so that tests can upgrade a cluster.
const BaseLevel = 1 // the level of a new state

// ErrLevel is wrapped by Meta.Check for a state of a level that this version does not
// know. A node that meets one must stop.
var ErrLevel = errors.New("unknown feature level; upgrade this node")

// Level returns the feature level of the state.
func (m *Machine) Level() uint32 { return m.meta.Level }

// checkLevel refuses a level that this version does not know; 0 is BaseLevel.
func checkLevel(level uint32) error {
	if level > MaxLevel {
		return fmt.Errorf("%w (level %d, newest known %d)", ErrLevel, level, MaxLevel)
	}
	return nil
}

// levelOfEntry returns the lowest level that describes b.
func levelOfEntry(b *fsmpb.Batch) uint32 {
	level := uint32(BaseLevel)
	for _, m := range b.Mutations {
		level = max(level, LevelOf(m))
	}
	return level
}

// LevelOf returns the feature level that added the kind of m, or one of the fields that m
// has. It has a case for each of these; everything else is as old as BaseLevel.
func LevelOf(m *fsmpb.Mutation) uint32 {
	level := max(m.GetRaiseLevel().GetLevel(), BaseLevel)
	for _, part := range m.GetGroup().GetMutations() {
		level = max(level, LevelOf(part))
	}
	return level
}
