package archive

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/fsm"
	"osqueue/storage/document"
)

// recovered is the readable part of a document that cannot be read as a whole.
type recovered struct {
	header *document.Header // nil: nothing of it
	broker string
	beat   int64 // ms; 0: not known
	// doc is the document without its damaged part, if that part is trailing data; nil otherwise.
	doc *document.File
}

// errNewer is returned for documents that this version must not change.
var errNewer = errors.New("the document is of a newer version: repair it with the release that wrote it, or a newer one")

// recoverDocument reads as much of a damaged document as it can. The fields that identify the lineage
// come before all long fields.
func recoverDocument(data []byte) (recovered, error) {
	members, whole := topLevel(data)
	var w recovered
	_ = json.Unmarshal(members["broker"], &w.broker) // null, or nothing
	_ = json.Unmarshal(members["brokerHeartbeat"], &w.beat)
	var h headerJSON
	if document.Unmarshal(members["osqueue"], &h) == nil && h.Format > 0 && h.Lineage != "" {
		if h.Format > document.Format || h.Level > fsm.MaxLevel {
			return w, errNewer
		}
		w.header = &document.Header{
			Format: h.Format, Lineage: h.Lineage, Cluster: h.Cluster, Epoch: h.Epoch, Node: h.Node,
			Term: h.Term, Index: h.Index, Write: h.Write, Writes: h.Writes,
		}
	}
	if whole {
		w.doc = assembled(members)
	}
	return w, nil
}

// headerJSON is the part of a header that a repair needs.
type headerJSON struct {
	Format  int      `json:"format"`
	Lineage string   `json:"lineage"`
	Cluster string   `json:"cluster"`
	Epoch   uint64   `json:"epoch"`
	Node    string   `json:"node"`
	Term    uint64   `json:"term"`
	Index   uint64   `json:"index"`
	Write   string   `json:"write"`
	Writes  []string `json:"writes"`
	Level   uint64   `json:"level"`
}

// topLevel returns the fields of an object up to the first damage.
func topLevel(data []byte) (members map[string]jsontext.Value, whole bool) {
	members = make(map[string]jsontext.Value)
	d := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowInvalidUTF8(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return members, false
	}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			return members, false
		}
		name := t.String()
		v, err := d.ReadValue()
		if err != nil {
			return members, false
		}
		members[name] = v.Clone()
	}
	t, err := d.ReadToken()
	return members, err == nil && t.Kind() == '}'
}

// assembled returns the document of the fields, byte for byte; nil if it is not valid.
func assembled(members map[string]jsontext.Value) *document.File {
	var buf bytes.Buffer
	sep := "{"
	for _, name := range slices.Sorted(maps.Keys(members)) {
		buf.WriteString(sep)
		buf.Write(document.Marshal(name))
		buf.WriteByte(':')
		buf.Write(members[name])
		sep = ","
	}
	buf.WriteByte('}')
	doc, err := document.Decode(buf.Bytes())
	if err != nil || doc.Header == nil {
		return nil
	}
	return doc
}

// document returns a replacement for the unreadable document that says only where the line
// ends.
func (w *recovered) document(end fsm.LSN) *document.File {
	h := *w.header
	h.Term, h.Index = end.Term, end.Index
	doc := &document.File{Header: &h, BrokerHeartbeat: w.beat}
	if w.broker != "" {
		doc.Broker = &w.broker
	}
	return doc
}

// whoseError is returned if the lineage of a document is not known.
type whoseError struct{ lineages []string }

func (e *whoseError) Error() string {
	return fmt.Sprintf("the lineage of the document cannot be read, and the bucket has %d of them: give --lineage with "+
		"one of %s",
		len(e.lineages), strings.Join(e.lineages, ", "))
}
