package document

import "osqueue/fsm"

// Figures has the figures of one type as a document has them: histograms and minutes are
// packed (fsm.Histogram.Pack, fsm.History.Pack), which keeps the document short.
type Figures struct {
	fsm.Figures
	wait, run, attempts, history string
}

// addTo adds the figures to a state. It does not change f.
func (f *Figures) addTo(b *fsm.Builder) error {
	own := f.Figures
	if err := own.Unpack(f.wait, f.run, f.attempts, f.history); err != nil {
		return err
	}
	return b.AddFigures(&own)
}

func (a *appender) figures(f *fsm.Figures) {
	a.optional("type", f.Type)
	a.flag("shared", f.Shared)
	a.natural("enqueued", f.Enqueued)
	a.natural("claimed", f.Claimed)
	a.natural("completed", f.Completed)
	a.natural("failed", f.Failed)
	a.natural("retried", f.Retried)
	a.natural("dead", f.Dead)
	a.natural("cancelled", f.Cancelled)
	a.natural("leasesLost", f.LeasesLost)
	a.packed("wait", f.Wait.Pack())
	a.packed("run", f.Run.Pack())
	a.packed("attempts", f.Attempts.Pack())
	a.packed("history", f.History.Pack())
}

// packed appends bytes as Base64; nothing if there are none.
func (a *appender) packed(name, value string) {
	if value != "" {
		a.base64(name, []byte(value))
	}
}

func figuresMember(f *Figures, name string) any {
	switch name {
	case "type":
		return &f.Type
	case "shared":
		return &f.Shared
	case "wait" + base64Suffix:
		return coded{&f.wait}
	case "run" + base64Suffix:
		return coded{&f.run}
	case "attempts" + base64Suffix:
		return coded{&f.attempts}
	case "history" + base64Suffix:
		return coded{&f.history}
	}
	return counterMember(&f.Counters, name)
}

// counterMember returns the destination of a counter.
func counterMember(c *fsm.Counters, name string) any {
	switch name {
	case "enqueued":
		return &c.Enqueued
	case "claimed":
		return &c.Claimed
	case "completed":
		return &c.Completed
	case "failed":
		return &c.Failed
	case "retried":
		return &c.Retried
	case "dead":
		return &c.Dead
	case "cancelled":
		return &c.Cancelled
	case "leasesLost":
		return &c.LeasesLost
	}
	return nil
}
