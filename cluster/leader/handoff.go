package leader

import (
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// A claim that waits for a job is committed in the entry that makes the job available, right
// behind the mutation that does. Otherwise the claim would need a second entry: it would be
// woken when the first one is applied.

// handedOver is a taken claim and its index in the entry.
type handedOver struct {
	WaitingClaim
	at int
}

// deliver gives the taken claims of an entry their shares of its outcome.
func deliver(taken []handedOver, results []fsm.Result, lsn fsm.LSN, err error) {
	for _, h := range taken {
		if err != nil {
			h.Deliver(fsm.Result{}, fsm.LSN{}, err)
			continue
		}
		h.Deliver(results[h.at], lsn, nil)
	}
}

// putBack answers the taken claims of an entry that was not proposed as if there had been no
// job, so that they wait on: a mutation of another caller is the cause.
func putBack(taken []handedOver) {
	for _, h := range taken {
		h.Deliver(fsm.Result{}, fsm.LSN{}, nil)
	}
}

// assemble puts the mutations of a batch into an entry, and behind each proposal the waiting
// claims for the jobs that it makes available. It returns the index of each proposal's first
// mutation, and the claims. While writes are refused it takes none.
func (t *Term) assemble(entry *fsmpb.Batch, batch []request) (at []int, taken []handedOver) {
	at = make([]int, len(batch))
	if t.do.Waiting() == 0 || t.rival() != nil || t.gate.refusal() != nil {
		for i, p := range batch {
			at[i] = len(entry.Mutations)
			entry.Mutations = append(entry.Mutations, p.ms...)
		}
		return at, nil
	}
	left := t.claimBytes(batch)
	take := func(jobType string, n int) {
		for _, w := range t.do.TakeWaiting(jobType, n, left) {
			left -= w.Claim.SizeVT()
			taken = append(taken, handedOver{w, len(entry.Mutations)})
			entry.Mutations = append(entry.Mutations, w.Claim)
		}
	}
	t.do.Read(func(m *fsm.Machine) {
		jobs := m.NewForecast(entry.NowMs, take)
		for i, p := range batch {
			at[i] = len(entry.Mutations)
			entry.Mutations = append(entry.Mutations, p.ms...)
			for _, mut := range p.ms {
				jobs.Add(mut)
			}
		}
	})
	return at, taken
}

// claimBytes returns how many bytes of claims may be added to the entry of a batch.
func (t *Term) claimBytes(batch []request) int {
	left := entryMax / 2
	if t.cfg.MaxEntryBytes > 0 {
		left = t.cfg.MaxEntryBytes
	}
	for _, p := range batch {
		left -= p.size()
	}
	return left
}
