package frame

// Hello is the first frame of each side. A side without limits leaves them 0.
type Hello struct {
	Version    uint32 // of the protocol
	Agent      string // name of the node, or of the client program
	InFlight   uint32 // server: the most requests in progress on this connection
	BodyBytes  uint32 // server: the most bytes in the body of a request frame
	PingMillis uint32 // server: the interval of its pings, in ms
}

func (m *Hello) fields() fields {
	return fields{&m.Version, &m.Agent, &m.InFlight, &m.BodyBytes, &m.PingMillis}
}

// Append implements Message.
func (m *Hello) Append(b []byte) []byte { return m.fields().appendTo(b) }

// Parse replaces m by the message in b.
func (m *Hello) Parse(b []byte) error {
	*m = Hello{}
	return m.fields().parse("Hello", b)
}

// Request is one write of the HTTP API.
type Request struct {
	Target string // path and query, escaped as in the first line of an HTTP request
	Body   []byte // JSON, or a message of package v1 in protobuf
	Key    string // the Idempotency-Key; "": none
	Prefer string // the Prefer header; "": none
	Method string // "": POST
	Proto  bool   // the body is protobuf
}

func (m *Request) fields() fields {
	return fields{&m.Target, &m.Body, &m.Key, &m.Prefer, &m.Method, &m.Proto}
}

// Append implements Message.
func (m *Request) Append(b []byte) []byte { return m.fields().appendTo(b) }

// Parse replaces m by the message in b.
func (m *Request) Parse(b []byte) error {
	*m = Request{}
	return m.fields().parse("Request", b)
}

// Answer is the answer to a Request.
type Answer struct {
	Status    uint32 // of HTTP
	Body      []byte // a problem in JSON if Status is 400 or more
	LSN       string // the Osqueue-Lsn; "": none
	Committed string // the Osqueue-Committed; "": none
	Replayed  bool   // the answer repeats the first one
	Proto     bool   // the body is protobuf
}

func (m *Answer) fields() fields {
	return fields{&m.Status, &m.Body, &m.LSN, &m.Committed, &m.Replayed, &m.Proto}
}

// Append implements Message.
func (m *Answer) Append(b []byte) []byte { return m.fields().appendTo(b) }

// Parse replaces m by the message in b.
func (m *Answer) Parse(b []byte) error {
	*m = Answer{}
	return m.fields().parse("Answer", b)
}

// Moved says that another node leads, or that this node shuts down.
type Moved struct {
	Leader  string // host:port of the HTTP API of the leader; "": not known
	Closing bool   // the connection closes after the answers to the requests that have arrived
}

func (m *Moved) fields() fields { return fields{&m.Leader, &m.Closing} }

// Append implements Message.
func (m *Moved) Append(b []byte) []byte { return m.fields().appendTo(b) }

// Parse replaces m by the message in b.
func (m *Moved) Parse(b []byte) error {
	*m = Moved{}
	return m.fields().parse("Moved", b)
}
