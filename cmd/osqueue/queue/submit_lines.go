package queue

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// batch is a sequence of lines that is sent in one request.
type batch struct {
	first, last int // numbers of the lines, from 1
	jobs        []client.NewJob
	lines       []int    // number of each job's line
	inputs      []string // the lines; nil: not needed
}

// head returns the first n jobs, tail the others.
func (b batch) head(n int) batch {
	part := batch{first: b.first, last: b.lines[n-1], jobs: b.jobs[:n], lines: b.lines[:n]}
	if b.inputs != nil {
		part.inputs = b.inputs[:n]
	}
	return part
}

func (b batch) tail(n int) batch {
	if n == len(b.jobs) {
		return batch{}
	}
	part := batch{first: b.lines[n], last: b.last, jobs: b.jobs[n:], lines: b.lines[n:]}
	if b.inputs != nil {
		part.inputs = b.inputs[n:]
	}
	return part
}

func (b batch) String() string {
	if b.first == b.last {
		return fmt.Sprintf("line %d", b.first)
	}
	return fmt.Sprintf("lines %d to %d", b.first, b.last)
}

// mayBeEnqueued reports whether the jobs of a request that failed with err may exist.
func mayBeEnqueued(err error) bool {
	var fault *client.Error
	return errors.As(err, &fault) && fault.Committed == client.CommittedUnknown
}

func (b batch) notEnqueued(err error) error {
	if mayBeEnqueued(err) {
		return fmt.Errorf("%s: %w", b, err)
	}
	if b.first == b.last {
		return fmt.Errorf("%s was not enqueued: %w", b, err)
	}
	return fmt.Errorf("%s were not enqueued: %w", b, err)
}

// lineReader makes batches of the lines of a file. It keeps one batch in memory.
type lineReader struct {
	in     *bufio.Reader
	flags  *submitFlags
	number int            // of the line read last
	most   int            // bytes of a batch
	ahead  *client.NewJob // read, but too large for its batch
}

func newLineReader(in io.Reader, f *submitFlags, most int) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, 64<<10), flags: f, most: most}
}

// next returns the next batch, or io.EOF at the end.
func (r *lineReader) next() (batch, error) {
	b := batch{first: r.number + 1, last: r.number}
	if r.ahead != nil {
		b.first--
	}
	size := 0
	for len(b.jobs) < client.MaxBatchJobs {
		job, err := r.job()
		if errors.Is(err, io.EOF) && len(b.jobs) > 0 {
			break
		}
		if err != nil {
			return batch{}, err
		}
		size += client.EncodedSize(*job)
		if size > r.most && len(b.jobs) > 0 {
			r.ahead = job
			b.last = r.number - 1
			return b, nil
		}
		b.jobs, b.lines = append(b.jobs, *job), append(b.lines, r.number)
		b.last = r.number
	}
	return b, nil
}

// job reads the next line that is not blank.
func (r *lineReader) job() (*client.NewJob, error) {
	if job := r.ahead; job != nil {
		r.ahead = nil
		return job, nil
	}
	for {
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		job, err := r.parse(line)
		if err != nil {
			return nil, fmt.Errorf("line %d %w", r.number, err)
		}
		return job, nil
	}
}

// line reads one line without its line break; the last line needs none.
func (r *lineReader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxPayload:
			return nil, fmt.Errorf("line %d is longer than %d bytes", r.number+1, maxPayload)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) > 0, err == nil:
			if r.number++; r.number == 1 {
				line = bytes.TrimPrefix(line, []byte("\ufeff")) // of editors on Windows
			}
			return bytes.TrimRight(line, "\r\n"), nil
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		default:
			return nil, fmt.Errorf("read line %d: %w", r.number+1, err)
		}
	}
}

func (r *lineReader) parse(line []byte) (*client.NewJob, error) {
	job, err := r.read(line)
	if err == nil && r.flags.id != "" && job.ID == "" {
		job.ID = fmt.Sprintf("%s-%d", r.flags.id, r.number)
	}
	return job, err
}

// read makes a job of a line: the line is the payload if the type is given, or else a
// JSON object.
func (r *lineReader) read(line []byte) (*client.NewJob, error) {
	if r.flags.typed {
		payload, err := asJSON(line, r.flags.text)
		if err != nil {
			return nil, err
		}
		job := r.flags.job(payload)
		job.ID = ""
		return &job, nil
	}
	var in v1.NewJob
	if err := json.Unmarshal(line, &in, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("is not a job, which is a JSON object like {\"type\":\"wc\",\"payload\":1} (for lines that are payloads, give a type): %w", err)
	}
	if in.Type == "" {
		var given struct {
			Type *string `json:"type"`
		}
		if err := json.Unmarshal(line, &given); err != nil || given.Type == nil {
			return nil, errors.New("has no type; write \"type\":\"\" if a job without type is meant")
		}
	}
	job := override(r.flags.job(nil), in) // the flags count where the line is silent
	return &job, nil
}
