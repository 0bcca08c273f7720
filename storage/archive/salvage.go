package archive

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/fsm"
	"osqueue/storage/queuefile"
)

// wreck is what can be read of a document that cannot be read as a whole.
type wreck struct {
	header *queuefile.Header // nil: nothing of it
	broker string
	beat   int64 // ms; 0: not known
	// doc is the document without what is wrong with it, if that is something behind
	// it or in its archive; nil otherwise.
	doc *queuefile.Document
}

// errNewer is for documents that this version must not touch.
var errNewer = errors.New("the document is of a newer version: repair it with the program that wrote it, or a newer one")

// salvage reads what it can. The members that tell whose the document is stand
// before all that is long.
func salvage(data []byte) (wreck, error) {
	members, whole := topLevel(data)
	var w wreck
	_ = json.Unmarshal(members["broker"], &w.broker) // null, or nothing
	_ = json.Unmarshal(members["brokerHeartbeat"], &w.beat)
	var h headerJSON
	if json.Unmarshal(members["osqueue"], &h) == nil && h.Format > 0 && h.Lineage != "" {
		if h.Format > queuefile.FormatMax || h.State.Level > fsm.MaxLevel {
			return w, errNewer
		}
		w.header = &queuefile.Header{
			Format: h.Format, Lineage: h.Lineage, Cluster: h.Cluster, Epoch: uint64(h.Epoch), Node: h.Node,
			Term: uint64(h.Term), Index: uint64(h.Index), Write: h.Write, Writes: h.Writes,
		}
	}
	if whole {
		w.doc = mended(members, h.Format)
	}
	return w, nil
}

// headerJSON is the part of a header that a repair needs.
type headerJSON struct {
	Format  int      `json:"format"`
	Lineage string   `json:"lineage"`
	Cluster string   `json:"cluster"`
	Epoch   natural  `json:"epoch"`
	Node    string   `json:"node"`
	Term    natural  `json:"term"`
	Index   natural  `json:"index"`
	Write   string   `json:"write"`
	Writes  []string `json:"writes"`
	State   struct {
		Level natural `json:"level"`
	} `json:"state"`
}

// natural is a number that stands in quotes if it is large.
type natural uint64

// UnmarshalJSON implements json.Unmarshaler.
func (n *natural) UnmarshalJSON(b []byte) error {
	x, err := strconv.ParseUint(strings.Trim(string(b), `"`), 10, 64)
	*n = natural(x)
	return err
}

// topLevel returns the members of an object up to where it is damaged.
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

// mended is the document of the members: as they are, as there may be something
// behind them; or of one that has its state inline, without the tail of its
// archive, or without all of that. It is nil if that is none either.
func mended(members map[string]jsontext.Value, format int) *queuefile.Document {
	if doc := assembled(members); doc != nil || queuefile.IsLarge(format) {
		return doc
	}
	delete(members, "tail")
	if end := logEnd(members); end != "" {
		members["tail"] = toJSON(map[string]string{"after": end, "last": end})
		if doc := assembled(members); doc != nil {
			return doc
		}
	}
	for _, name := range []string{"base", "log", "tail"} {
		delete(members, name)
	}
	return assembled(members)
}

// logEnd is where the log of an archive ends, or its base if there is no log; ""
// if they do not tell.
func logEnd(members map[string]jsontext.Value) string {
	var base struct {
		LSN string `json:"lsn"`
	}
	var log []struct {
		Last string `json:"last"`
	}
	if json.Unmarshal(members["base"], &base) != nil || members["log"] != nil && json.Unmarshal(members["log"], &log) != nil {
		return ""
	}
	if len(log) > 0 {
		return log[len(log)-1].Last
	}
	return base.LSN
}

// assembled is the document of the members, byte for byte: there are payloads in
// them.
func assembled(members map[string]jsontext.Value) *queuefile.Document {
	var buf bytes.Buffer
	sep := "{"
	for _, name := range slices.Sorted(maps.Keys(members)) {
		buf.WriteString(sep)
		buf.Write(toJSON(name))
		buf.WriteByte(':')
		buf.Write(members[name])
		sep = ","
	}
	buf.WriteByte('}')
	doc, err := queuefile.Decode(buf.Bytes())
	if err != nil || doc.Header == nil {
		return nil
	}
	return doc
}

// document is a stand-in for the one that cannot be read: one that says no more
// than where the line ends.
func (w *wreck) document(end fsm.LSN) *queuefile.Document {
	doc := &queuefile.Document{Header: w.header, BrokerHeartbeat: w.beat, Large: true, Meta: fsm.Meta{LSN: end}}
	if w.broker != "" {
		doc.Broker = &w.broker
	}
	return doc
}

// whoseError is returned if nothing tells which lineage a document was of.
type whoseError struct{ lineages []string }

func (e *whoseError) Error() string {
	return fmt.Sprintf("the document does not tell any more which lineage it is of, and the bucket has %d: give --lineage with one of %s",
		len(e.lineages), strings.Join(e.lineages, ", "))
}
