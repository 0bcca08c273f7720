package bucket

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"osqueue/cluster"
	"osqueue/cmd/osqueue/view"
	"osqueue/fsm"
	"osqueue/internal/text"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
)

// storedState is a state that was read from a bucket, and the document by which
// it was found.
type storedState struct {
	doc     *document.File
	machine *fsm.Machine
	view    *fsm.View
	past    bool // it is an earlier one than the document's
}

// readState reads the state at some point. url is for errors.
func readState(ctx context.Context, bucket storage.Bucket, url string, at view.Moment) (*storedState, error) {
	if at.IsZero() {
		doc, err := readDocument(ctx, bucket, url)
		if err != nil {
			return nil, err
		}
		m, err := archive.Machine(ctx, bucket, doc)
		if err != nil {
			return nil, fmt.Errorf("%s in %s: %w\n%s", cluster.DocumentKey, url, err, verifyHint(url))
		}
		return &storedState{doc: doc, machine: m, view: m.View()}, nil
	}
	h, err := openHistory(ctx, bucket, url)
	if err != nil {
		return nil, err
	}
	m, err := stateAt(ctx, h, url, at)
	if err != nil {
		return nil, err
	}
	s := &storedState{doc: h.Document(), machine: m, view: m.View()}
	s.past = s.view.LSN() != s.doc.LSN()
	return s, nil
}

func readDocument(ctx context.Context, bucket storage.Bucket, url string) (*document.File, error) {
	o, err := bucket.Get(ctx, cluster.DocumentKey)
	if err != nil {
		return nil, readError(url, cluster.DocumentKey, err)
	}
	doc, err := document.Decode(o.Data)
	if err != nil {
		return nil, fmt.Errorf("%s in %s: %w\n%s", cluster.DocumentKey, url, err, verifyHint(url))
	}
	return doc, nil
}

func openHistory(ctx context.Context, bucket storage.Bucket, url string) (*archive.History, error) {
	h, err := archive.Open(ctx, bucket, cluster.DocumentKey)
	if err != nil {
		return nil, readError(url, cluster.DocumentKey, err)
	}
	return h, nil
}

// readError adds the next step for the user to an error of reading a document or its archive.
func readError(url, key string, err error) error {
	switch {
	case errors.Is(err, archive.ErrDamaged):
		return fmt.Errorf("read %s: %w\n%s", url, err, verifyHint(url))
	case errors.Is(err, storage.ErrNotFound):
		return fmt.Errorf("%s has no %s: check the URL and its prefix", url, key)
	}
	return fmt.Errorf("read %s: %w", url, err)
}

// stateAt rebuilds a state of a history. If the state is not kept, the error lists those that are.
func stateAt(ctx context.Context, h *archive.History, url string, at view.Moment) (*fsm.Machine, error) {
	m, err := h.At(ctx, targetOf(at))
	switch {
	case errors.Is(err, archive.ErrNotKept):
		return nil, fmt.Errorf("--at %s: %s has no such state\n%s", at.Text, url, spansText(h.Spans()))
	case err != nil:
		return nil, readError(url, cluster.DocumentKey, err)
	}
	return m, nil
}

func verifyHint(url string) string {
	return "osqueue verify " + view.ShellWord(url) + " lists all damage and the next step"
}

// stateStamp says of which point a state is, and how old it is.
type stateStamp struct {
	LSN   string `json:"lsn,omitzero"`
	Clock int64  `json:"clock"` // the queue's clock at that point, ms
	// Newest is the LSN of the document, if the state is an earlier one.
	Newest    string `json:"newestLsn,omitzero"`
	Broker    string `json:"broker"`
	Heartbeat int64  `json:"brokerHeartbeat"`
	AgeMs     int64  `json:"ageMs"` // of the heartbeat
}

func (s *storedState) stamp(now time.Time) stateStamp {
	m, d := s.view.Meta(), s.doc
	stamp := stateStamp{
		Clock: m.Now, Broker: text.ClipMarked(d.BrokerAddress(), brokerShown), Heartbeat: d.BrokerHeartbeat, AgeMs: now.UnixMilli() - d.BrokerHeartbeat,
	}
	if d.Header != nil {
		stamp.LSN = m.LSN.String()
	}
	if s.past {
		stamp.Newest = d.LSN().String()
	}
	return stamp
}

// brokerShown is the number of bytes of a broker's address that are shown. A person who can write
// the document can make it any text.
const brokerShown = 256

// text is the stamp on one line.
func (s *stateStamp) text(now time.Time) string {
	line := "state of the legacy broker"
	if s.LSN != "" {
		line = "state " + s.LSN
	}
	line += " of " + pointText(s.Clock, now)
	if s.Newest != "" {
		line += "; the newest is " + s.Newest
	}
	age := view.Short(max(time.Duration(s.AgeMs)*time.Millisecond, 0))
	if s.Broker == "" {
		return fmt.Sprintf("%s; written %s ago, not by a broker\n", line, age)
	}
	return fmt.Sprintf("%s; broker %s wrote %s ago\n", line, s.Broker, age)
}

// pointText is a time, and how long ago it was.
func pointText(ms int64, now time.Time) string {
	if ms == 0 {
		return "-"
	}
	return view.LocalTime(ms) + " (" + view.AgoText(ms, now) + " ago)"
}

// storedSpan is a range of states without a gap.
type storedSpan struct {
	From  string `json:"from"` // LSNs, both included
	To    string `json:"to"`
	Since int64  `json:"since"` // the queue's clock at these, ms
	Until int64  `json:"until"`
}

func spanOf(s archive.Span) storedSpan {
	return storedSpan{s.From.String(), s.To.String(), s.Since.UnixMilli(), s.Until.UnixMilli()}
}

func (s storedSpan) row() []string {
	length := "-"
	if s.Since > 0 {
		length = view.Short(view.FromMs(s.Until - s.Since))
	}
	return []string{s.From, s.To, beginningOr(s.Since), view.LocalTime(s.Until), length}
}

// text formats a span on one line.
func (s storedSpan) text() string {
	if s.From == s.To {
		return fmt.Sprintf("%s (%s)", s.From, beginningOr(s.Since))
	}
	return fmt.Sprintf("%s (%s) up to %s (%s)", s.From, beginningOr(s.Since), s.To, view.LocalTime(s.Until))
}

// beginningOr is a time of a queue, which has none before its first entry.
func beginningOr(ms int64) string {
	if ms == 0 {
		return "the beginning"
	}
	return view.LocalTime(ms)
}

// spansMost is the number of ranges that an error names.
const spansMost = 6

// spansText lists the states that can be restored.
func spansText(spans []archive.Span) string {
	if len(spans) == 0 {
		return "it has no state that can be restored"
	}
	var b strings.Builder
	b.WriteString("states that can be restored:")
	first := max(0, len(spans)-spansMost)
	if first > 0 {
		fmt.Fprintf(&b, " %d ranges, the last of which are", len(spans))
	}
	for _, s := range spans[first:] {
		since := "the beginning"
		if s.Since.UnixMilli() != 0 {
			since = s.Since.Format(time.RFC3339) // as --at takes it
		}
		fmt.Fprintf(&b, "\n  %s (%s)", s.From, since)
		if s.To != s.From {
			fmt.Fprintf(&b, " up to %s (%s)", s.To, s.Until.Format(time.RFC3339))
		}
	}
	return b.String()
}

// targetOf returns a moment of a flag as a place in a history.
func targetOf(at view.Moment) archive.Target {
	lsn, _ := fsm.ParseLSN(at.LSN) // the flag has checked it
	return archive.Target{LSN: lsn, Time: at.Time}
}
