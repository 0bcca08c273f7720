package fsm

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"unicode/utf8"

	"osqueue/fsm/fsmpb"
)

// ErrEntry is wrapped by DecodeEntry. A node that meets such an entry must
// stop: skipping it would make its state differ from the others'.
var ErrEntry = errors.New("log entry cannot be applied")

// EncodeEntry sets b.Version to the lowest feature level that describes b, and
// returns b's log form. It refuses what DecodeEntry would: such an entry, once
// committed, stops every node.
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
// What this version does not know is refused, in whatever depth it stands: a
// newer node would have acted on it.
func DecodeEntry(data []byte) (*fsmpb.Batch, error) {
	b := new(fsmpb.Batch)
	err := b.UnmarshalVTUnsafe(data)
	if b.Version > MaxLevel { // first, as it explains the others
		return nil, fmt.Errorf("%w: version %d is not known here (newest known: %d); upgrade this node",
			ErrEntry, b.Version, MaxLevel)
	}
	if err == nil {
		err = checkBatch(b)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	return b, nil
}

var (
	errNoVersion = errors.New("it has no version, so it is no log entry")
	errUnknown   = errors.New("it has fields that are not known here; upgrade this node")
	errNoOp      = errors.New("its kind is missing or not known here; upgrade this node")
	errNoLease   = errors.New("its lease is missing")
	errNewValue  = errors.New("it has a value that is missing or not known here; upgrade this node")
	errLog       = errors.New("its log is not UTF-8, or too long")
	errNested    = errors.New("a group stands in a group, or one of its parts has a request of its own")
)

// checkBatch makes Apply total: past it no nested message is nil, and nothing
// is in b that Apply would not look at.
func checkBatch(b *fsmpb.Batch) error {
	if b.Version == 0 {
		return errNoVersion
	}
	for i, m := range b.Mutations {
		if err := checkMutation(m); err != nil {
			return fmt.Errorf("mutation %d: %w", i, err)
		}
	}
	if b.HasUnknown() {
		return errUnknown
	}
	return nil
}

func checkMutation(m *fsmpb.Mutation) error {
	switch op := m.GetOp().(type) {
	case *fsmpb.Mutation_Enqueue:
		return checkEnqueue(op.Enqueue)
	case *fsmpb.Mutation_Claim:
		return need(op.Claim != nil, errNoOp)
	case *fsmpb.Mutation_Heartbeat:
		return need(op.Heartbeat != nil, errNoOp)
	case *fsmpb.Mutation_Complete:
		return checkComplete(op.Complete)
	case *fsmpb.Mutation_Fail:
		return need(op.Fail.GetLease() != nil, errNoLease)
	case *fsmpb.Mutation_Release:
		return need(op.Release.GetLease() != nil, errNoLease)
	case *fsmpb.Mutation_ForceComplete:
		return need(op.ForceComplete != nil, errNoOp)
	}
	return checkRare(m)
}

func checkComplete(op *fsmpb.Complete) error {
	if op.GetLease() == nil {
		return errNoLease
	}
	return need(len(op.Log) <= LogMax && utf8.ValidString(op.Log), errLog)
}

func checkRare(m *fsmpb.Mutation) error {
	switch op := m.GetOp().(type) {
	case *fsmpb.Mutation_RegisterWorker:
		return need(op.RegisterWorker != nil, errNoOp)
	case *fsmpb.Mutation_WorkerDead:
		return need(op.WorkerDead != nil, errNoOp)
	case *fsmpb.Mutation_RegisterBroker:
		return need(op.RegisterBroker != nil, errNoOp)
	case *fsmpb.Mutation_Change:
		return checkChange(op.Change)
	case *fsmpb.Mutation_SetQueue:
		return need(op.SetQueue != nil && op.SetQueue.GetBackoff().GetKind() < numBackoffs, errNewValue)
	case *fsmpb.Mutation_Group:
		return checkGroup(op.Group)
	case *fsmpb.Mutation_Announce:
		known := op.Announce.GetKind() > 0 && op.Announce.GetKind() < numAnnounces
		return need(known, errNewValue)
	case *fsmpb.Mutation_RaiseLevel:
		level := op.RaiseLevel.GetLevel()
		return need(level > BaseLevel && level <= MaxLevel, errNewValue)
	case *fsmpb.Mutation_CheckState:
		return need(op.CheckState != nil, errNoOp)
	case *fsmpb.Mutation_StateChecked:
		return need(len(op.StateChecked.GetSum()) == sha256.Size, errNewValue)
	case *fsmpb.Mutation_SetExtra:
		if op.SetExtra == nil {
			return errNoOp
		}
		return checkExtra(op.SetExtra.Extra)
	}
	return checkCron(m)
}

func checkCron(m *fsmpb.Mutation) error {
	switch op := m.GetOp().(type) {
	case *fsmpb.Mutation_PutCron:
		if op.PutCron == nil || op.PutCron.Job == nil {
			return errNoOp
		}
		if op.PutCron.Overlap >= numOverlaps || op.PutCron.Missed >= numMissed {
			return errNewValue
		}
		return checkTemplate(op.PutCron.Job)
	case *fsmpb.Mutation_PauseCron:
		return need(op.PauseCron != nil, errNoOp)
	case *fsmpb.Mutation_DeleteCron:
		return need(op.DeleteCron != nil, errNoOp)
	case *fsmpb.Mutation_FireCron:
		return need(op.FireCron != nil, errNoOp)
	case *fsmpb.Mutation_TriggerCron:
		return need(op.TriggerCron != nil, errNoOp)
	}
	return errNoOp
}

func checkEnqueue(op *fsmpb.Enqueue) error {
	if op == nil {
		return errNoOp
	}
	for _, n := range op.Jobs {
		if err := checkNewJob(n); err != nil {
			return err
		}
	}
	if b := op.NewBatch; b != nil {
		if b.CallbackOn >= numCallbacks {
			return errNewValue
		}
		return checkTemplate(b.Callback)
	}
	return nil
}

func checkNewJob(n *fsmpb.NewJob) error {
	known := n.GetBackoff().GetKind() < numBackoffs && n.GetUnique().GetScope() < numScopes &&
		n.GetAfterFailure() < numAfters
	if !known {
		return errNewValue
	}
	return checkExtra(n.GetExtra())
}

// checkTemplate is checkNewJob for a job of which many may be made.
func checkTemplate(n *fsmpb.NewJob) error {
	if n.GetExtra() != "" {
		return errNewValue
	}
	return checkNewJob(n)
}

func checkChange(op *fsmpb.Change) error {
	if op == nil {
		return errNoOp
	}
	for _, s := range op.GetFilter().GetStatuses() {
		if s >= numStatuses {
			return errNewValue
		}
	}
	return need(op.Kind > 0 && op.Kind <= numChanges, errNewValue)
}

// checkGroup keeps groups flat: one in another could be as deep as it likes.
func checkGroup(op *fsmpb.Group) error {
	for _, m := range op.GetMutations() {
		if m.GetGroup() != nil || m.GetRequest() != nil {
			return errNested
		}
		if err := checkMutation(m); err != nil {
			return err
		}
	}
	return need(op != nil, errNoOp)
}

func need(ok bool, err error) error {
	if ok {
		return nil
	}
	return err
}
