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
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// line is a line of the input, its job, and what became of it. Commands for one job have one line.
type line struct {
	number int    // from 1; 0: of a command for one job
	text   string // of map
	job    client.NewJob
	fault  error // ends the input; there is no job

	id    string // of the job, once it is sent
	since time.Time
	over  bool // the job has ended, or was not sent
	ended v1.Job
}

// batch is a sequence of lines that is sent in one request.
type batch []*line

func (b batch) String() string {
	if len(b) == 1 {
		return fmt.Sprintf("line %d", b[0].number)
	}
	return fmt.Sprintf("lines %d to %d", b[0].number, b[len(b)-1].number)
}

// mayBeEnqueued reports whether the jobs of a request that failed with err may exist.
func mayBeEnqueued(err error) bool {
	var fault *client.Error
	return errors.As(err, &fault) && fault.Committed == client.CommittedUnknown
}

func (b batch) notEnqueued(err error) error {
	switch {
	case b[0].number == 0:
		return err
	case mayBeEnqueued(err):
		return fmt.Errorf("%s: %w", b, err)
	case len(b) == 1:
		return fmt.Errorf("%s was not enqueued: %w", b, err)
	}
	return fmt.Errorf("%s were not enqueued: %w", b, err)
}

// linesOf reads the lines that are not blank. parse makes the job of a line. An error ends them.
func linesOf(in io.Reader, parse func(l *line, text []byte) error) iter.Seq[*line] {
	return func(yield func(*line) bool) {
		from := bufio.NewReaderSize(in, 64<<10)
		for number := 1; ; number++ {
			text, err := readLine(from, number)
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil && len(bytes.TrimSpace(text)) == 0 {
				continue
			}
			l := &line{number: number, fault: err}
			if err == nil {
				l.fault = parse(l, text)
			}
			if !yield(l) || l.fault != nil {
				return
			}
		}
	}
}

// readLine reads one line without its line break; the last line needs none.
func readLine(from *bufio.Reader, number int) (text []byte, err error) {
	for {
		part, err := from.ReadSlice('\n')
		text = append(text, part...)
		switch {
		case len(text) > maxPayload:
			return nil, fmt.Errorf("line %d is longer than %d bytes", number, maxPayload)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(text) > 0, err == nil:
			if number == 1 {
				text = bytes.TrimPrefix(text, []byte("\ufeff")) // of editors on Windows
			}
			return bytes.TrimRight(text, "\r\n"), nil
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		default:
			return nil, fmt.Errorf("read line %d: %w", number, err)
		}
	}
}

// linesAhead is the number of lines that are read ahead of sending.
const linesAhead = 256

// batches makes batches of lines, of at most most bytes. They are full if whole is true, which
// makes them the same in each run. Otherwise they have the lines that are available: if the source
// is slow, its first lines do not wait for the others. An error comes after the lines before it,
// unless batches are whole. The sequence ends with ctx.
func batches(ctx context.Context, lines iter.Seq[*line], most int, whole bool) iter.Seq2[batch, error] {
	return func(yield func(batch, error) bool) {
		ctx, end := context.WithCancel(ctx)
		defer end()
		ahead := make(chan *line, linesAhead)
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
		var b batch
		size := 0
		flush := func() (more bool) {
			full := b
			b, size = nil, 0
			return len(full) == 0 || yield(full, nil)
		}
		for {
			l, err := nextLine(ctx, ahead, whole || len(b) == 0)
			switch {
			case errors.Is(err, io.EOF):
				flush()
				return
			case err != nil:
				if whole || flush() {
					yield(nil, err)
				}
				return
			case l == nil && !flush():
				return
			case l == nil:
				continue
			}
			n := client.EncodedSize(l.job)
			if size+n > most && !flush() {
				return
			}
			if b, size = append(b, l), size+n; len(b) == client.MaxBatchJobs && !flush() {
				return
			}
		}
	}
}

// nextLine returns the next line. If wait is false and no line is available, it returns nil.
func nextLine(ctx context.Context, ahead <-chan *line, wait bool) (l *line, err error) {
	var more bool
	select {
	case l, more = <-ahead:
	default:
		if !wait {
			return nil, nil
		}
		select {
		case l, more = <-ahead:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if !more {
		return nil, io.EOF
	}
	return l, l.fault
}

// parse makes the job of a line.
func (f *submitFlags) parse(l *line, text []byte) (err error) {
	if l.job, err = f.read(text); err != nil {
		return fmt.Errorf("line %d %w", l.number, err)
	}
	if f.id != "" && l.job.ID == "" {
		l.job.ID = fmt.Sprintf("%s-%d", f.id, l.number)
	}
	return nil
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
