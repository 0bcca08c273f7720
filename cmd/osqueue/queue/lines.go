package queue

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// batch is a sequence of lines that is sent in one request.
type batch struct {
	jobs   []client.NewJob
	lines  []int    // number of each job's line
	inputs []string // texts of the lines
}

// cut returns the first n jobs, and the others.
func (b batch) cut(n int) (head, tail batch) {
	return batch{b.jobs[:n], b.lines[:n], b.inputs[:n]}, batch{b.jobs[n:], b.lines[n:], b.inputs[n:]}
}

func (b batch) String() string {
	if len(b.lines) == 1 {
		return fmt.Sprintf("line %d", b.lines[0])
	}
	return fmt.Sprintf("lines %d to %d", b.lines[0], b.lines[len(b.lines)-1])
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
	if len(b.lines) == 1 {
		return fmt.Errorf("%s was not enqueued: %w", b, err)
	}
	return fmt.Errorf("%s were not enqueued: %w", b, err)
}

// fileLine is a line with its job, or the error that ends the input.
type fileLine struct {
	number int // from 1
	text   string
	job    client.NewJob
	err    error
}

// lineReader reads the lines of a file as jobs.
type lineReader struct {
	in     *bufio.Reader
	number int // of the line read last
	parse  func(number int, line []byte) (client.NewJob, error)
	texts  bool // the lines have their texts
}

func newLineReader(in io.Reader, parse func(int, []byte) (client.NewJob, error)) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, 64<<10), parse: parse}
}

// all returns the lines that are not blank. An error ends them.
func (r *lineReader) all() iter.Seq[fileLine] {
	return func(yield func(fileLine) bool) {
		for {
			text, err := r.line()
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil && len(bytes.TrimSpace(text)) == 0 {
				continue
			}
			l := fileLine{number: r.number, err: err}
			if err == nil {
				l.job, l.err = r.parse(r.number, text)
			}
			if r.texts {
				l.text = string(text)
			}
			if !yield(l) || l.err != nil {
				return
			}
		}
	}
}

// linesAhead is the number of lines that are read ahead of sending.
const linesAhead = 256

// batches makes batches of lines, of at most most bytes. They are full if whole is true, which
// makes them the same in each run. Otherwise they have the lines that are available: if the source
// is slow, its first lines do not wait for the others. The sequence ends with ctx.
func batches(ctx context.Context, lines iter.Seq[fileLine], most int, whole bool) iter.Seq2[batch, error] {
	return func(yield func(batch, error) bool) {
		ctx, end := context.WithCancel(ctx)
		defer end()
		ahead := make(chan fileLine, linesAhead)
		go func() {
			defer close(ahead)
			for l := range lines {
				select {
				case ahead <- l:
				case <-ctx.Done():
					return
				}
			}
		}()
		g := gatherer{ahead: ahead, most: most, whole: whole}
		for {
			b, err := g.next(ctx)
			if len(b.jobs) > 0 && !yield(b, nil) {
				return
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(batch{}, err)
				}
				return
			}
		}
	}
}

// gatherer collects lines into batches.
type gatherer struct {
	ahead <-chan fileLine
	most  int // bytes of a batch
	whole bool
	left  *fileLine // did not fit into the batch before
}

// next waits for a line, and adds the lines that are available then, or as many as fit. It returns
// an error together with the lines before it, unless batches are whole; io.EOF is the end.
func (g *gatherer) next(ctx context.Context) (b batch, err error) {
	size := 0
	for len(b.jobs) < client.MaxBatchJobs {
		l, err := g.line(ctx, g.whole || len(b.jobs) == 0)
		switch {
		case errors.Is(err, errNoneYet):
			return b, nil
		case err != nil && g.whole && !errors.Is(err, io.EOF):
			return batch{}, err
		case err != nil:
			return b, err
		}
		size += client.EncodedSize(l.job)
		if size > g.most && len(b.jobs) > 0 {
			g.left = &l
			return b, nil
		}
		b.jobs, b.lines, b.inputs = append(b.jobs, l.job), append(b.lines, l.number), append(b.inputs, l.text)
	}
	return b, nil
}

// errNoneYet means that no line is available at the moment.
var errNoneYet = errors.New("there is no line yet")

// line returns the next line. If wait is false, it may return errNoneYet.
func (g *gatherer) line(ctx context.Context, wait bool) (l fileLine, err error) {
	if g.left != nil {
		l, g.left = *g.left, nil
		return l, nil
	}
	var more bool
	if wait {
		select {
		case l, more = <-g.ahead:
		case <-ctx.Done():
			return l, context.Cause(ctx)
		}
	} else {
		select {
		case l, more = <-g.ahead:
		default:
			return l, errNoneYet
		}
	}
	if !more {
		return l, io.EOF
	}
	return l, l.err
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

// parse makes the job of a line.
func (f *submitFlags) parse(number int, line []byte) (client.NewJob, error) {
	job, err := f.read(line)
	if err != nil {
		return job, fmt.Errorf("line %d %w", number, err)
	}
	if f.id != "" && job.ID == "" {
		job.ID = fmt.Sprintf("%s-%d", f.id, number)
	}
	return job, nil
}

// read makes a job of a line: the line is the payload if the type is given, or else a
// JSON object.
func (f *submitFlags) read(line []byte) (client.NewJob, error) {
	if f.typed {
		payload, err := asJSON(line, f.text)
		job := f.job(payload)
		job.ID = ""
		return job, err
	}
	var in v1.NewJob
	if err := json.Unmarshal(line, &in, json.RejectUnknownMembers(true)); err != nil {
		return client.NewJob{}, fmt.Errorf("is not a job, which is a JSON object like {\"type\":\"wc\",\"payload\":1} (for lines that are payloads, give a type): %w", err)
	}
	if in.Type == "" {
		var given struct {
			Type *string `json:"type"`
		}
		if err := json.Unmarshal(line, &given); err != nil || given.Type == nil {
			return client.NewJob{}, errors.New("has no type; write \"type\":\"\" if a job without type is meant")
		}
	}
	return override(f.job(nil), in), nil // the flags count where the line is silent
}

// maxPayload bounds the payload of one job: the server takes 1 MiB including the other
// fields.
const maxPayload = 1<<20 - 1024

// readPayload returns the argument, or else the content of stdin.
func readPayload(ctx context.Context, g *view.Globals, argument *string) (text []byte, present bool, err error) {
	if argument != nil && *argument != "-" {
		return []byte(*argument), true, nil
	}
	if argument == nil && !piped(g.In) {
		return nil, false, nil
	}
	text, err = io.ReadAll(io.LimitReader(g.Stdin(ctx), maxPayload+1))
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("read the payload from stdin: %w", err)
	case len(text) > maxPayload:
		return nil, false, fmt.Errorf("the payload on stdin is larger than %d bytes; store it elsewhere and submit its URL", maxPayload)
	}
	return text, len(text) > 0 || argument != nil, nil
}

// piped reports whether data is sent to stdin: a terminal and /dev/null are devices.
func piped(stdin io.Reader) bool {
	file, ok := stdin.(*os.File)
	if !ok {
		return stdin != nil
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&fs.ModeCharDevice == 0
}

// openInput returns a file's content; - is stdin.
func openInput(g *view.Globals, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(g.In), nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// asJSON converts a typed payload to JSON.
func asJSON(text []byte, plain bool) ([]byte, error) {
	if plain {
		quoted, err := jsontext.AppendQuote(nil, text)
		if err != nil {
			return nil, fmt.Errorf("is not UTF-8: %w", err)
		}
		return quoted, nil
	}
	if !v1.ValidJSON(text) {
		return nil, notJSON(text)
	}
	return text, nil
}

// notJSON describes the position at which a payload stops being JSON.
func notJSON(text []byte) error {
	var syntax *jsontext.SyntacticError
	if err := json.Unmarshal(text, new(jsontext.Value), jsontext.AllowDuplicateNames(true)); !errors.As(err, &syntax) {
		return fmt.Errorf("is not valid JSON (%w); quote text as JSON, or give --text", err)
	}
	at := int(syntax.ByteOffset)
	reason := strings.TrimPrefix(syntax.Err.Error(), "jsontext: ")
	if errors.Is(syntax.Err, io.ErrUnexpectedEOF) {
		reason = "it is incomplete"
	}
	return fmt.Errorf("is not valid JSON at byte %d%s: %s; quote text as JSON, or give --text", at, near(text, at), reason)
}

// near returns the text before a position.
func near(text []byte, at int) string {
	const most = 20
	at = min(at, len(text))
	if at == 0 {
		return ""
	}
	return fmt.Sprintf(", after %q", text[max(0, at-most):at])
}
