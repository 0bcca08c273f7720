package document

import (
	"fmt"
	"math"
	"slices"

	"osqueue/fsm"
)

// document assembles the parts by the rules for the document's writer.
func (d *decoder) document() (*File, error) {
	doc := &d.doc
	doc.Large = doc.Header != nil && d.header.Format == FormatLarge
	if doc.Header != nil && !doc.Large && !d.seen["jobs"] {
		return nil, fmt.Errorf("%w: the document has a header and no jobs: it is truncated, or of a newer version", ErrFormat)
	}
	doc.Overtaken = doc.Header != nil &&
		(doc.BrokerAddress() != d.header.Address || doc.BrokerHeartbeat != d.header.Heartbeat)
	doc.Meta = d.meta()
	doc.OurSeq = doc.Meta.LastSeq
	if !d.state.present {
		doc.OurSeq = math.MaxUint64
	}
	if err := d.takeArchive(); err != nil {
		return nil, err
	}
	given := d.givenPlaces()
	if doc.Large {
		d.large()
		doc.given = placesOf(doc.Jobs, given)
		return doc, nil
	}
	switch doc.writer() {
	case original:
		d.adoptOriginal()
	case overtaker:
		d.overtake()
	}
	d.giveLeases()
	if doc.writer() != ours || !d.state.present {
		doc.Meta.Now = max(doc.Meta.Now, d.latest())
	}
	if doc.writer() != ours {
		d.mend()
	}
	if err := d.boundCounters(); err != nil {
		return nil, err
	}
	if err := d.givePlaces(); err != nil {
		return nil, err
	}
	if doc.writer() != ours {
		d.reconcile()
	}
	doc.Jobs = slices.Concat(d.waiting, d.others)
	doc.given = placesOf(doc.Jobs, given)
	for _, j := range doc.Jobs {
		doc.Meta.Token = max(doc.Meta.Token, j.Execution().Token)
	}
	d.giveTurns()
	doc.Counts = countOf(doc.Jobs)
	return doc, nil
}

func (d *decoder) meta() fsm.Meta {
	h, s := &d.header, &d.state
	m := fsm.Meta{
		LSN:            h.LSN(),
		TermBase:       s.TermBase,
		Now:            s.Now,
		LastSeq:        s.LastSeq,
		Token:          s.Token,
		LeasesFrom:     s.LeasesFrom,
		CompletedTotal: d.completedTotal,
		DeadTotal:      s.DeadTotal,
		CancelledTotal: s.CancelledTotal,
		LastTurn:       s.LastTurn,
		Announced:      uint32(s.Announced),
		Adopted:        s.Adopted,
		Cluster:        orElse(s.Cluster, h.Cluster),
		Lineage:        orElse(s.Lineage, h.Lineage),
		Broker: fsm.Broker{
			Node:    orElse(s.Node, h.Node),
			Address: orElse(s.Address, h.Address),
			Epoch:   h.Epoch,
		},
		Settings: s.Settings,
		Extra:    d.extra.text(),
		Level:    max(uint32(s.Level), fsm.BaseLevel),
	}
	d.doc.Lost += d.extra.lost
	if s.Epoch != nil {
		m.Broker.Epoch = *s.Epoch
	}
	return m
}

func orElse(own *string, header string) string {
	if own != nil {
		return *own
	}
	return header
}

// giveLeases sets the default lease duration of running jobs that have none.
func (d *decoder) giveLeases() {
	for _, list := range [][]*fsm.Job{d.waiting, d.others} {
		for _, j := range list {
			if j.Execution().HeldMs == unknownLease {
				j.Exec.HeldMs = d.doc.Meta.Settings.LeaseMs
			}
		}
	}
}

// lastTime is the end of the year 9999, ms. Later times are in another unit and must not
// set a clock: the clock would never go back.
const lastTime = 253_402_300_799_999

// latest returns the latest time in the document.
func (d *decoder) latest() int64 {
	latest := int64(0)
	see := func(times ...int64) {
		for _, at := range times {
			if at <= lastTime {
				latest = max(latest, at)
			}
		}
	}
	see(d.doc.BrokerHeartbeat)
	for _, list := range [][]*fsm.Job{d.waiting, d.others} {
		for _, j := range list {
			see(j.CreatedAt, j.Execution().ClaimedAt, j.Execution().Heartbeat, j.Execution().FinishedAt)
			if det := j.Det; det != nil {
				see(det.CancelAt, det.ProgressAt)
			}
		}
	}
	d.besideTimes(see)
	return latest
}

// besideTimes calls see with the times of the records other than jobs.
func (d *decoder) besideTimes(see func(times ...int64)) {
	for _, q := range d.doc.Queues {
		see(q.LevelAt)
	}
	for _, c := range d.doc.Crons {
		see(c.UpdatedAt, c.LastAt)
	}
	for _, b := range d.doc.Batches {
		see(b.CreatedAt, b.EndedAt)
	}
	for _, r := range d.doc.Requests {
		see(r.At)
	}
	for _, t := range d.doc.Tokens {
		see(t.CreatedAt, t.UsedAt)
	}
}

// counterLimit is the largest counter that an edit may bring into a document. A machine counts
// on from it, and fsm.Meta.Check refuses counters above the double of it: without a limit one
// number could make all later documents unreadable.
const counterLimit = 1 << 62

// boundCounters refuses positions, tokens and batches that no queue reaches.
func (d *decoder) boundCounters() error {
	for _, list := range [][]*fsm.Job{d.waiting, d.others} {
		for _, j := range list {
			if j.Seq > max(counterLimit, d.doc.Meta.LastSeq) {
				return fmt.Errorf("%w: job %q: seq %d is out of range; leave seq out of a job that you add", ErrFormat, j.ID, j.Seq)
			}
			if t := j.Execution().Token; t > max(counterLimit, d.doc.Meta.Token) {
				return fmt.Errorf("%w: job %q: token %d is out of range", ErrFormat, j.ID, t)
			}
		}
	}
	for _, b := range d.doc.Batches {
		if b.Total > counterLimit {
			return fmt.Errorf("%w: batch %q: total %d is out of range", ErrFormat, b.ID, b.Total)
		}
	}
	return nil
}

// givePlaces makes the positions unique, and those of the available and running jobs
// consistent with the order of their list.
func (d *decoder) givePlaces() error {
	last := d.doc.Meta.LastSeq
	taken := make(map[uint64]struct{}, len(d.waiting)+len(d.others))
	var homeless []*fsm.Job
	for _, j := range d.others {
		last = max(last, j.Seq)
		if _, dup := taken[j.Seq]; dup || j.Seq == 0 {
			homeless = append(homeless, j)
			continue
		}
		taken[j.Seq] = struct{}{}
	}
	for _, j := range d.waiting {
		last = max(last, j.Seq)
	}
	rest := d.waiting[ordered(d.waiting, taken):]
	if anyPlaced(rest) {
		rest = d.waiting // the order was changed: all get new positions
	}
	homeless = slices.Concat(rest, homeless)
	if len(homeless) > 0 && last > math.MaxUint64-uint64(len(homeless)) {
		return fmt.Errorf("%w: seq %d is out of range", ErrFormat, last)
	}
	for _, j := range homeless {
		last++
		j.Seq = last
	}
	d.doc.Meta.LastSeq = last
	d.moveHolds(homeless)
	return nil
}

// moveHolds moves unique-key reservations to the new positions of their jobs.
func (d *decoder) moveHolds(moved []*fsm.Job) {
	if len(d.doc.Holds) == 0 || len(moved) == 0 {
		return
	}
	place := make(map[string]uint64, len(moved))
	for _, j := range moved {
		place[j.ID] = j.Seq
	}
	for _, h := range d.doc.Holds {
		if seq, ok := place[h.JobID]; ok {
			h.Seq = seq
		}
	}
}

// ordered returns the length of the longest prefix of jobs whose positions increase and are
// not taken.
func ordered(jobs []*fsm.Job, taken map[uint64]struct{}) int {
	last := uint64(0)
	for i, j := range jobs {
		if _, dup := taken[j.Seq]; dup || j.Seq <= last {
			return i
		}
		last = j.Seq
	}
	return len(jobs)
}

func anyPlaced(jobs []*fsm.Job) bool {
	for _, j := range jobs {
		if j.Seq != 0 {
			return true
		}
	}
	return false
}
