package document

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/fsm"
)

// ErrFormat is wrapped by each error of Decode: the document cannot be read.
var ErrFormat = errors.New("queue document cannot be read")

// fields are the fields at the top that a writer of a document writes.
var fields = []string{"broker", "brokerHeartbeat", "jobs", "completedTotal", "osqueue", "checkpoint", "kept", "log", "tail"}

// Decode reads a document from any of its writers, by the rules in doc.go. An error wraps
// ErrFormat and gives the position in the document. The document shares no memory with
// data.
func Decode(data []byte) (*File, error) {
	top, unknown, err := readTop(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	d := &File{}
	if h := top["osqueue"]; h == nil || h.Kind() == 'n' {
		err = d.readLegacy(top, unknown)
	} else {
		err = d.read(top, unknown)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return d, nil
}

// readTop returns the fields of the document that this package knows, which must not occur
// twice, and whether there are others. The values are parts of data.
func readTop(data []byte) (top map[string]jsontext.Value, unknown bool, err error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), anyJSON...)
	if k := dec.PeekKind(); k != '{' && k != 0 {
		return nil, false, fmt.Errorf("at the top: must be an object, not %s", kindName(k))
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, false, syntax(err)
	}
	top = make(map[string]jsontext.Value, len(fields))
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, false, syntax(err)
		}
		key := name.String()
		value, err := dec.ReadValue()
		switch _, twice := top[key]; {
		case err != nil:
			return nil, false, syntax(err)
		case !slices.Contains(fields, key):
			unknown = true
		case twice:
			return nil, false, fmt.Errorf("field %q occurs twice (byte %d)", key, dec.InputOffset())
		default:
			end := int(dec.InputOffset())
			top[key] = data[end-len(value) : end]
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, false, syntax(err)
	}
	switch _, err := dec.ReadToken(); {
	case err == nil:
		return nil, false, fmt.Errorf("trailing data after byte %d", dec.InputOffset())
	case !errors.Is(err, io.EOF):
		return nil, false, syntax(err)
	}
	return top, unknown, nil
}

// syntax names the case of an empty document.
func syntax(err error) error {
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the document is empty")
	}
	return err
}

// read reads a document with a header.
func (d *File) read(top map[string]jsontext.Value, unknown bool) error {
	d.Header = &Header{}
	if err := readMember(top, "osqueue", d.Header); err != nil {
		return err
	}
	h := d.Header
	switch {
	case h.Format != Format:
		return fmt.Errorf("the document has format %d, and this release reads only %d: use the release that wrote it", h.Format, Format)
	case h.Level > fsm.MaxLevel:
		return fmt.Errorf("the document has feature level %d, and this release knows levels up to %d: use the release that wrote it",
			h.Level, fsm.MaxLevel)
	case top["tail"] == nil:
		return errors.New("the document has a header and no tail: it is truncated, or of a newer version")
	}
	d.Archive = &Archive{}
	for name, to := range map[string]any{
		"broker": &d.Broker, "brokerHeartbeat": &d.BrokerHeartbeat, "completedTotal": &d.CompletedTotal,
		"checkpoint": &d.Archive.Checkpoint, "kept": &d.Archive.Kept, "log": &d.Archive.Log, "tail": &d.Archive.Tail,
	} {
		if err := readMember(top, name, to); err != nil {
			return err
		}
	}
	if err := d.Archive.Check(); err != nil {
		return fmt.Errorf("at %w", err)
	}
	if d.Archive.LSN() != h.LSN() {
		return fmt.Errorf("at /osqueue: the document is of %s, but the archive ends at %s", h.LSN(), d.Archive.LSN())
	}
	d.Overtaken = d.BrokerAddress() != h.Address || d.BrokerHeartbeat != h.Heartbeat
	d.readView(top["jobs"], unknown)
	return nil
}

// readMember reads a field, if it is there, into a pointer.
func readMember(top map[string]jsontext.Value, name string, to any) error {
	if top[name] == nil {
		return nil
	}
	if err := Unmarshal(top[name], to); err != nil {
		return fmt.Errorf("at /%s: %w", name, err)
	}
	return nil
}

// readView compares the field jobs with its checksum. Its jobs matter only if it was edited. A value that is no list of jobs is an edit.
func (d *File) readView(jobs jsontext.Value, unknown bool) {
	d.Viewed = jobs != nil
	var sum Sum
	if d.Viewed {
		sum = sha256.Sum256(jobs)
	}
	d.Edited = unknown || sum != d.Header.View
	if !d.Edited || jobs.Kind() != '[' {
		return
	}
	read, _ := readJobs(jobs)
	for _, j := range read {
		if j.ID != "" && (j.Status == fsm.Unclaimed || j.Status == fsm.InProgress) {
			d.View = append(d.View, j)
		}
	}
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 'n':
		return "null"
	default:
		return "true or false"
	}
}
