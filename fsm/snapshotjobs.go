package fsm

import (
	"bytes"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/idtable"
	"osqueue/fsm/job"
	"osqueue/fsm/recordio"
)

// A chunk of jobs is complete if it has that many bytes or jobs.
const (
	chunkBytes = 64 << 10
	chunkJobs  = 512
)

// jobChunk is a part of the jobs of a snapshot.
type jobChunk struct {
	data   []byte    // records
	ends   []int     // end of each record in data
	record fsmpb.Job // the record that is decoded
	jobs   []*Job    // of the records
	hashes []uint32  // of their ids
	err    error     // of the record after jobs
}

// jobs reads the jobs, n records, and adds them. Jobs are the largest part of a snapshot, so their
// chunks are read, decoded and added at the same time. The error is that of the first record
// that has one, as if the records were read one after the other.
func (d *recordReader) jobs(n uint64, b *Builder) error {
	return recordio.Stages[jobChunk]{
		Read: func(c *jobChunk) (bool, error) {
			err := c.read(d, n)
			n -= uint64(len(c.ends))
			return n > 0, err
		},
		Work: func(c *jobChunk) { c.decode(b.m.ids) },
		Add:  func(c *jobChunk) error { return c.addTo(b) },
	}.Run()
}

// read replaces the content of c by the next records, at most n.
func (c *jobChunk) read(d *recordReader, n uint64) error {
	if cap(c.data) > 2*chunkBytes { // the last record was very large
		c.data = nil
	}
	clear(c.jobs)
	c.data, c.ends, c.jobs, c.hashes, c.err = c.data[:0], c.ends[:0], c.jobs[:0], c.hashes[:0], nil
	for n > 0 && len(c.data) < chunkBytes && len(c.ends) < chunkJobs {
		data, err := d.Next(c.data)
		if err != nil {
			return err
		}
		c.data, c.ends = data, append(c.ends, len(data))
		n--
	}
	return nil
}

func (c *jobChunk) decode(ids *idtable.Table[Job]) {
	from := 0
	for _, end := range c.ends {
		if c.err = decodeJob(&c.record, c.data[from:end]); c.err != nil {
			return
		}
		j := job.FromRecord(&c.record)
		c.jobs, c.hashes = append(c.jobs, j), append(c.hashes, ids.Hash(j.ID))
		from = end
	}
}

// decodeJob decodes a record whose memory is used again: the job that job.FromRecord makes of p has no
// memory of it except its type, which AddJob replaces.
func decodeJob(p *fsmpb.Job, data []byte) error {
	if err := decodeRecord(p, data); err != nil {
		return err
	}
	if e := job.ExecutionOf(p); p.Options == nil && p.Details == nil && e.Zero() {
		return nil
	}
	return decodeRecord(p, bytes.Clone(data)) // the job shares the memory of the record
}

func (c *jobChunk) addTo(b *Builder) error {
	for i, j := range c.jobs {
		if err := b.addJob(j, c.hashes[i]); err != nil {
			return err
		}
	}
	return c.err
}
