package archive

import (
	"fmt"
	"maps"
	"slices"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// RestoreNode is the broker's name in a state that Begin has made, until a
// cluster adopts it.
const RestoreNode = "restore"

// Origin is how a state becomes the first one of a lineage.
type Origin struct {
	Lineage string // of its own: no other document has it
	// After and Epoch are the newest that anybody may know of the queue: what
	// begins is after both, so that LSNs and fencing tokens go on growing for
	// those who have seen what is left behind.
	After fsm.LSN
	Epoch uint64
	// Pause has every type and every schedule paused.
	Pause bool
}

// Paused is what Begin has paused that was not paused before, by name.
type Paused struct {
	Types []string
	Crons []string
}

// Begin makes the state of m the first one of another lineage, without a broker's
// address and without a cluster, so that an empty cluster may adopt it. That
// happens by one log entry at the machine's own time: so nothing falls due by it,
// leases begin anew, and the result is a state like any other.
//
// With Pause it pauses the types that have jobs or settings, those whose jobs
// schedules or the callbacks of open batches would enqueue, and all schedules. It
// is an error if there are more types than can have settings. After an error m is
// of no use.
func Begin(m *fsm.Machine, o Origin) (Paused, error) {
	meta := m.Meta()
	epoch := max(o.Epoch, meta.Broker.Epoch) + 1
	batch := &fsmpb.Batch{NowMs: meta.Now, Mutations: []*fsmpb.Mutation{{Op: &fsmpb.Mutation_RegisterBroker{
		RegisterBroker: &fsmpb.RegisterBroker{Node: RestoreNode, Epoch: epoch, Lineage: o.Lineage},
	}}}}
	var p Paused
	if o.Pause {
		p = toPause(m)
		batch.Mutations = append(batch.Mutations, p.mutations()...)
	}
	data, err := fsm.EncodeEntry(batch)
	if err != nil {
		return p, fmt.Errorf("begin lineage %s: %w", o.Lineage, err)
	}
	if batch, err = fsm.DecodeEntry(data); err != nil {
		return p, fmt.Errorf("begin lineage %s: %w", o.Lineage, err)
	}
	term := max(o.After.Term, meta.LSN.Term) + 1
	for i, res := range m.Apply(meta.LSN.Index+1, term-meta.TermBase, batch) {
		if err := res.Code.Err(); err != nil {
			return p, fmt.Errorf("begin lineage %s: %s: %w", o.Lineage, naming(batch.Mutations[i]), err)
		}
	}
	return p, nil
}

// naming says what a mutation of Begin is about.
func naming(m *fsmpb.Mutation) string {
	switch op := m.Op.(type) {
	case *fsmpb.Mutation_SetQueue:
		return fmt.Sprintf("pause type %q", op.SetQueue.Name)
	case *fsmpb.Mutation_PauseCron:
		return fmt.Sprintf("pause schedule %q", op.PauseCron.Name)
	}
	return "register the restore as its broker"
}

// toPause finds what is not paused.
func toPause(m *fsm.Machine) Paused {
	v := m.View()
	types := make(map[string]bool)
	m.Types(func(name string, _ fsm.TypeStats) bool {
		types[name] = true
		return true
	})
	v.Queues(func(q *fsm.QueueSettings) bool {
		types[q.Name] = true
		return true
	})
	var p Paused
	v.Crons("", func(c *fsm.Cron) bool {
		types[c.Job.GetType()] = true
		if !c.Paused {
			p.Crons = append(p.Crons, c.Name)
		}
		return true
	})
	v.Batches("", func(b *fsm.JobBatch) bool {
		if b.Callback != nil && !b.Called {
			types[b.Callback.GetType()] = true
		}
		return true
	})
	maps.DeleteFunc(types, func(name string, _ bool) bool {
		q := v.Queue(name)
		return q != nil && q.Paused
	})
	p.Types = slices.Sorted(maps.Keys(types))
	return p
}

func (p *Paused) mutations() []*fsmpb.Mutation {
	all := make([]*fsmpb.Mutation, 0, len(p.Types)+len(p.Crons))
	for _, name := range p.Types {
		op := &fsmpb.SetQueue{Name: name, Paused: new(true)}
		all = append(all, &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: op}})
	}
	for _, name := range p.Crons {
		op := &fsmpb.PauseCron{Name: name, Paused: true}
		all = append(all, &fsmpb.Mutation{Op: &fsmpb.Mutation_PauseCron{PauseCron: op}})
	}
	return all
}
