package document

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"osqueue/fsm"
)

// archiveMember returns a reader for a field of the archive; nil for another field.
func (d *decoder) archiveMember(name string) func() error {
	switch name {
	case "base":
		return func() error {
			d.based = true
			return d.object(d.baseMember)
		}
	case "log":
		return func() error { return d.list(d.ref) }
	case "tail":
		return func() error { return d.object(d.tailMember) }
	case "counts":
		return func() error { return d.object(d.countMember) }
	case "liveJobs":
		return func() error { return d.syntax(d.dec.SkipValue()) }
	}
	return nil
}

func (d *decoder) baseMember(name string) any {
	b := &d.arc.Checkpoint
	switch name {
	case "key":
		return &b.Key
	case "lsn":
		return d.lsnOf(&b.LSN)
	case "prev":
		return d.lsnOf(&b.Prev)
	case "at":
		return &b.At
	case "raw":
		return &b.Raw
	case "stored":
		return &b.Stored
	case "sha256":
		return d.sumOf(&b.Sum)
	}
	return nil
}

func (d *decoder) ref() error {
	var r Ref
	err := d.object(func(name string) any {
		switch name {
		case "key":
			return &r.Key
		case "stored":
			return &r.Stored
		case "sha256":
			return d.sumOf(&r.Sum)
		}
		return d.runMember(&r.Run, name)
	})
	d.arc.Log = append(d.arc.Log, r)
	return err
}

func (d *decoder) tailMember(name string) any {
	t := &d.arc.Tail
	switch name {
	case "sha256":
		return d.sumOf(&t.Sum)
	case "zstd":
		return func() error {
			var data string
			err := d.coded(coded{&data})
			t.Data = []byte(data)
			return err
		}
	}
	return d.runMember(&t.Run, name)
}

func (d *decoder) runMember(r *Run, name string) any {
	switch name {
	case "after":
		return d.lsnOf(&r.After)
	case "last":
		return d.lsnOf(&r.Last)
	case "from":
		return &r.From
	case "until":
		return &r.Until
	case "entries":
		return &r.Entries
	case "raw":
		return &r.Raw
	}
	return nil
}

// countMember returns the destination of a count of jobs. It skips a status of a later
// version.
func (d *decoder) countMember(name string) any {
	s, ok := fsm.ParseStatus(name)
	if !ok {
		return nil
	}
	return func() error {
		var n uint64
		err := d.number(&n)
		d.doc.Counts[s] = int(min(n, math.MaxInt))
		return err
	}
}

func (r *reader) lsnOf(dst *fsm.LSN) func() error {
	return func() error {
		var text string
		if err := r.text(&text); err != nil {
			return err
		}
		lsn, err := fsm.ParseLSN(text)
		if err != nil {
			return r.fail("must be an LSN (term-index)", err)
		}
		*dst = lsn
		return nil
	}
}

func (r *reader) sumOf(dst *Sum) func() error {
	return func() error {
		var text string
		if err := r.text(&text); err != nil {
			return err
		}
		if sum, err := hex.DecodeString(text); err == nil && len(sum) == len(dst) {
			*dst = Sum(sum)
			return nil
		}
		return r.fail(fmt.Sprintf("must be a SHA-256 in hex, %d digits", 2*len(dst)), nil)
	}
}

// takeArchive sets the archive of the document, if there is one and it matches the
// document.
func (d *decoder) takeArchive() error {
	doc := &d.doc
	if doc.Header == nil {
		return nil // these fields belong to another program
	}
	if !d.based {
		if doc.Large || d.seen["log"] || d.seen["tail"] {
			return fmt.Errorf("%w: the checkpoint is missing: the document is truncated", ErrFormat)
		}
		return nil
	}
	if err := d.arc.Check(); err != nil {
		return fmt.Errorf("%w: at %w", ErrFormat, err)
	}
	if !d.arc.reaches(d.header.LSN(), !doc.Large) {
		return fmt.Errorf("%w: at /osqueue: the document is of %s, but the archive ends at %s", ErrFormat, d.header.LSN(), d.arc.LSN())
	}
	doc.Archive = &d.arc
	return nil
}

// large assembles a large document: only the header, the archive and the jobs to enqueue
// count.
func (d *decoder) large() {
	doc := &d.doc
	doc.Workers, doc.Claims = nil, nil
	doc.Queues, doc.Turns, doc.Crons = nil, nil, nil
	doc.Batches, doc.Holds, doc.Requests, doc.Tokens, doc.Figures = nil, nil, nil, nil, nil
	if doc.Overtaken {
		d.giveIDs()
	}
	doc.Jobs = slices.Concat(d.waiting, d.others)
	for _, j := range doc.Jobs {
		j.Seq = 0
		if j.Status == fsm.InProgress { // no broker that hands out jobs writes this form
			j.Status, j.Exec.Worker, j.Exec.Heartbeat, j.Exec.ClaimedAt, j.Exec.HeldMs = fsm.Unclaimed, "", 0, 0, 0
		}
		voidClaim(j)
	}
}

func countOf(jobs []*fsm.Job) (counts fsm.Counts) {
	for _, j := range jobs {
		counts[j.Status]++
	}
	return counts
}
