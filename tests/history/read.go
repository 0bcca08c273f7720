package history

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
)

// line is one line of a record: exactly one field is set.
type line struct {
	Run      *Run      `json:"run,omitzero"`
	Op       *Op       `json:"op,omitzero"`
	Fault    *Fault    `json:"fault,omitzero"`
	Applied  *Applied  `json:"applied,omitzero"`
	Document *Document `json:"document,omitzero"`
	State    *State    `json:"state,omitzero"`
	Final    *Final    `json:"final,omitzero"`
}

// lineMax bounds the length of a line, in bytes.
const lineMax = 64 << 20

var (
	errNoRun  = errors.New("the first line is not the run")
	errRuns   = errors.New("it is another run")
	errMember = errors.New("it does not have exactly one member")
	errEmpty  = errors.New("it is empty")
)

// Read reads the output of a Recorder. An error names the line, counted from 1.
func Read(in io.Reader) (*History, error) {
	h := new(History)
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, bufferBytes), lineMax)
	ids := make(map[int]bool)
	n := 0
	for lines.Scan() {
		n++
		if err := h.add(lines.Bytes(), n == 1, ids); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	if n == 0 {
		return nil, fmt.Errorf("line 1: %w", errNoRun)
	}
	return h, nil
}

// add adds one line to the history.
func (h *History) add(data []byte, first bool, ids map[int]bool) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return errEmpty
	}
	var l line
	if err := json.Unmarshal(data, &l, json.RejectUnknownMembers(true)); err != nil {
		return err
	}
	switch {
	case l.members() != 1:
		return errMember
	case first && l.Run == nil:
		return errNoRun
	case !first && l.Run != nil:
		return errRuns
	}
	if err := l.check(ids); err != nil {
		return err
	}
	h.put(l)
	return nil
}

func (l *line) members() int {
	n := 0
	for _, there := range []bool{
		l.Run != nil, l.Op != nil, l.Fault != nil, l.Applied != nil, l.Document != nil, l.State != nil, l.Final != nil,
	} {
		if there {
			n++
		}
	}
	return n
}

func (h *History) put(l line) {
	switch {
	case l.Run != nil:
		h.Run = *l.Run
	case l.Op != nil:
		h.Ops = append(h.Ops, *l.Op)
	case l.Fault != nil:
		h.Faults = append(h.Faults, *l.Fault)
	case l.Applied != nil:
		h.Applied = append(h.Applied, *l.Applied)
	case l.Document != nil:
		h.Documents = append(h.Documents, *l.Document)
	case l.State != nil:
		h.States = append(h.States, *l.State)
	case l.Final != nil:
		h.Finals = append(h.Finals, *l.Final)
	}
}

// check refuses a line that no Recorder writes.
func (l *line) check(ids map[int]bool) error {
	switch {
	case l.Op != nil:
		return l.Op.check(ids)
	case l.Fault != nil && (l.Fault.Name == "" || l.Fault.End < l.Fault.Begin || l.Fault.Begin < 0):
		return fmt.Errorf("fault %q from %d to %d", l.Fault.Name, l.Fault.Begin, l.Fault.End)
	case l.Applied != nil && (l.Applied.Kind == "" || l.Applied.LSN.IsZero() && l.Applied.Kind != Snapshot):
		return errors.New("an applied line without kind or LSN")
	case l.State != nil && l.State.Hash == "":
		return errors.New("a state without hash")
	case l.Document != nil && l.Document.Hash == "":
		return errors.New("a document without hash")
	case l.Final != nil && (l.Final.Job == "" || l.Final.Status == ""):
		return errors.New("a final job without id or status")
	}
	return nil
}

func (op *Op) check(ids map[int]bool) error {
	switch op.Kind {
	case Enqueue, Claim, Heartbeat, Complete, Fail, Release, Cancel, Edit, SetLimit, Throttle, Step, Signal, Attach, Open, GetJob, Stats:
	default:
		return fmt.Errorf("operation %d is of no kind: %q", op.ID, op.Kind)
	}
	switch op.Outcome {
	case OK, Refused, Unknown:
	default:
		return fmt.Errorf("operation %d has no outcome: %q", op.ID, op.Outcome)
	}
	switch {
	case op.ID <= 0 || ids[op.ID]:
		return fmt.Errorf("operation id %d is not positive or there twice", op.ID)
	case op.Call < 0 || op.Return < op.Call:
		return fmt.Errorf("operation %d returns at %d and was called at %d", op.ID, op.Return, op.Call)
	case op.Client == "":
		return fmt.Errorf("operation %d has no client", op.ID)
	}
	ids[op.ID] = true
	return nil
}

// Write writes the history in the form that Read reads.
func (h *History) Write(w io.Writer) error {
	out := bufio.NewWriterSize(w, bufferBytes)
	for l := range h.lines {
		data, err := json.Marshal(l, json.Deterministic(true))
		if err != nil {
			return err
		}
		if _, err := out.Write(append(data, '\n')); err != nil {
			return err
		}
	}
	return out.Flush()
}

func (h *History) lines(yield func(line) bool) {
	_ = yield(line{Run: &h.Run}) &&
		each(h.Ops, func(v *Op) bool { return yield(line{Op: v}) }) &&
		each(h.Faults, func(v *Fault) bool { return yield(line{Fault: v}) }) &&
		each(h.Applied, func(v *Applied) bool { return yield(line{Applied: v}) }) &&
		each(h.Documents, func(v *Document) bool { return yield(line{Document: v}) }) &&
		each(h.States, func(v *State) bool { return yield(line{State: v}) }) &&
		each(h.Finals, func(v *Final) bool { return yield(line{Final: v}) })
}

func each[T any](all []T, yield func(*T) bool) bool {
	for i := range all {
		if !yield(&all[i]) {
			return false
		}
	}
	return true
}
