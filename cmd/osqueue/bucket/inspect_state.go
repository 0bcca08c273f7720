package bucket

import (
	"context"
	"errors"
	"fmt"
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
func readState(ctx context.Context, bucket storage.Bucket, url string, at *atFlag) (*storedState, error) {
	if at.newest() {
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
		return nil, readError(url, err)
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
		return nil, readError(url, err)
	}
	return h, nil
}

func readError(url string, err error) error {
	if errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("%s has no %s: check the URL and its prefix", url, cluster.DocumentKey)
	}
	if errors.Is(err, archive.ErrDamaged) {
		return fmt.Errorf("read %s: %w\n%s", url, err, verifyHint(url))
	}
	return fmt.Errorf("read %s: %w", url, err)
}

// stateAt rebuilds a state of a history. If the state is not kept, the error lists those that are.
func stateAt(ctx context.Context, h *archive.History, url string, at *atFlag) (*fsm.Machine, error) {
	m, err := h.At(ctx, at.target)
	switch {
	case errors.Is(err, archive.ErrNotKept):
		return nil, fmt.Errorf("--at %s: %s has no such state\n%s", at.text, url, spansText(h.Spans()))
	case errors.Is(err, archive.ErrDamaged):
		return nil, fmt.Errorf("%s: %w\n%s", url, err, verifyHint(url))
	case err != nil:
		return nil, fmt.Errorf("%s: %w", url, err)
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
