package frame

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Hello is the first frame of each side. A side without limits leaves them 0.
type Hello struct {
	Version    uint32 // of the protocol
	Agent      string // name of the node, or of the client program
	InFlight   uint32 // server: the most requests in progress on this connection
	BodyBytes  uint32 // server: the most bytes in the body of a request frame
	PingMillis uint32 // server: the interval of its pings, in ms
}

// The field numbers of Hello.
const (
	helloVersion    protowire.Number = 1
	helloAgent      protowire.Number = 2
	helloInFlight   protowire.Number = 3
	helloBodyBytes  protowire.Number = 4
	helloPingMillis protowire.Number = 5
)

// Append implements Message.
func (m *Hello) Append(b []byte) []byte {
	b = appendUint(b, helloVersion, m.Version)
	b = appendText(b, helloAgent, m.Agent)
	b = appendUint(b, helloInFlight, m.InFlight)
	b = appendUint(b, helloBodyBytes, m.BodyBytes)
	return appendUint(b, helloPingMillis, m.PingMillis)
}

// Parse replaces m by the message in b.
func (m *Hello) Parse(b []byte) error {
	*m = Hello{}
	err := fields(b, func(num protowire.Number, f field) {
		switch num {
		case helloVersion:
			f.toUint(&m.Version)
		case helloAgent:
			f.toText(&m.Agent)
		case helloInFlight:
			f.toUint(&m.InFlight)
		case helloBodyBytes:
			f.toUint(&m.BodyBytes)
		case helloPingMillis:
			f.toUint(&m.PingMillis)
		}
	})
	if err != nil {
		return wrongField("Hello", err)
	}
	return nil
}

// Request is one write of the HTTP API.
type Request struct {
	Target string // path and query, escaped as in the first line of an HTTP request
	Body   []byte // the JSON body
	Key    string // the Idempotency-Key; "": none
	Prefer string // the Prefer header; "": none
	Method string // "": POST
}

// The field numbers of Request.
const (
	requestTarget protowire.Number = 1
	requestBody   protowire.Number = 2
	requestKey    protowire.Number = 3
	requestPrefer protowire.Number = 4
	requestMethod protowire.Number = 5
)

// Append implements Message.
func (m *Request) Append(b []byte) []byte {
	b = appendText(b, requestTarget, m.Target)
	b = appendBytes(b, requestBody, m.Body)
	b = appendText(b, requestKey, m.Key)
	b = appendText(b, requestPrefer, m.Prefer)
	return appendText(b, requestMethod, m.Method)
}

// Parse replaces m by the message in b.
func (m *Request) Parse(b []byte) error {
	*m = Request{}
	err := fields(b, func(num protowire.Number, f field) {
		switch num {
		case requestTarget:
			f.toText(&m.Target)
		case requestBody:
			f.toBytes(&m.Body)
		case requestKey:
			f.toText(&m.Key)
		case requestPrefer:
			f.toText(&m.Prefer)
		case requestMethod:
			f.toText(&m.Method)
		}
	})
	if err != nil {
		return wrongField("Request", err)
	}
	return nil
}

// Answer is the answer to a Request.
type Answer struct {
	Status    uint32 // of HTTP
	Body      []byte // the JSON body; a problem if Status is 400 or more
	LSN       string // the Osqueue-Lsn; "": none
	Committed string // the Osqueue-Committed; "": none
	Replayed  bool   // the answer repeats the first one
}

// The field numbers of Answer.
const (
	answerStatus    protowire.Number = 1
	answerBody      protowire.Number = 2
	answerLSN       protowire.Number = 3
	answerCommitted protowire.Number = 4
	answerReplayed  protowire.Number = 5
)

// Append implements Message.
func (m *Answer) Append(b []byte) []byte {
	b = appendUint(b, answerStatus, m.Status)
	b = appendBytes(b, answerBody, m.Body)
	b = appendText(b, answerLSN, m.LSN)
	b = appendText(b, answerCommitted, m.Committed)
	return appendBool(b, answerReplayed, m.Replayed)
}

// Parse replaces m by the message in b.
func (m *Answer) Parse(b []byte) error {
	*m = Answer{}
	err := fields(b, func(num protowire.Number, f field) {
		switch num {
		case answerStatus:
			f.toUint(&m.Status)
		case answerBody:
			f.toBytes(&m.Body)
		case answerLSN:
			f.toText(&m.LSN)
		case answerCommitted:
			f.toText(&m.Committed)
		case answerReplayed:
			f.toBool(&m.Replayed)
		}
	})
	if err != nil {
		return wrongField("Answer", err)
	}
	return nil
}

// Moved says that another node leads, or that this node shuts down.
type Moved struct {
	Leader  string // host:port of the HTTP API of the leader; "": not known
	Closing bool   // the connection closes after the answers to the requests that have arrived
}

// The field numbers of Moved.
const (
	movedLeader  protowire.Number = 1
	movedClosing protowire.Number = 2
)

// Append implements Message.
func (m *Moved) Append(b []byte) []byte {
	return appendBool(appendText(b, movedLeader, m.Leader), movedClosing, m.Closing)
}

// Parse replaces m by the message in b.
func (m *Moved) Parse(b []byte) error {
	*m = Moved{}
	err := fields(b, func(num protowire.Number, f field) {
		switch num {
		case movedLeader:
			f.toText(&m.Leader)
		case movedClosing:
			f.toBool(&m.Closing)
		}
	})
	if err != nil {
		return wrongField("Moved", err)
	}
	return nil
}
