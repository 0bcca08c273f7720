package transcript

import "github.com/go-json-experiment/json/jsontext"

// The transports. Those after Start are not played: they are data for other tests.
const (
	HTTP         = "http"
	WS           = "ws"
	Handshake    = "ws-handshake"
	Start        = "start"
	Election     = "election"
	ElectionRace = "election-race"
	Document     = "document"
	Timeline     = "timeline"
	Client       = "client"
	Raft         = "raft"
)

// The setups that a case may need of the server.
const (
	ConfigDefault     = "default"
	ConfigShortExpiry = "short-expiry"
	ConfigSeeded      = "seeded"
	ConfigThrottled   = "throttled"
	ConfigStorageFail = "storage-fail"
)

// TargetFollower is the target of a request that goes to a node which does not lead, regardless
// of the target of the other requests.
const TargetFollower = "follower"

// Case is one recorded exchange. One pair of request and response is set, that of its transport;
// none for data of other tests.
type Case struct {
	Name   string `json:"name"`
	Seq    string `json:"seq"` // cases of one sequence go in order, on a queue that was empty
	Config string `json:"config"`
	Note   string `json:"note"`
	Quirk  bool   `json:"quirk"` // an accident of the recorded system
	Slow   bool   `json:"slow"`

	WaitMs       int `json:"wait_ms"`       // before the request
	TimeoutMs    int `json:"timeout_ms"`    // for the answer; 0: the player's
	EventuallyMs int `json:"eventually_ms"` // how long the request is repeated until the answer is right

	Seed    any               `json:"seed"` // a document to start on
	Capture map[string]string `json:"capture"`

	// Which parts of a recorded value count, by their places.
	Refs      map[string]string `json:"refs"`
	Formats   map[string]string `json:"formats"`
	Volatile  []string          `json:"volatile"`
	Soft      []string          `json:"soft"`
	Optional  []string          `json:"optional"`
	JSONBytes []string          `json:"jsonBytes"`

	Request  jsontext.Value `json:"request"`
	Response jsontext.Value `json:"response"`

	Transport         string             `json:"-"`
	HTTPRequest       *HTTPRequest       `json:"-"`
	HTTPResponse      *HTTPResponse      `json:"-"`
	WSRequest         *WSRequest         `json:"-"`
	WSResponse        *WSResponse        `json:"-"`
	HandshakeRequest  *HandshakeRequest  `json:"-"`
	HandshakeResponse *HandshakeResponse `json:"-"`
	StartResponse     *StartResponse     `json:"-"`
	ClientRequest     *ClientRequest     `json:"-"`
	ClientResponse    *ClientResponse    `json:"-"`
}

// Played reports whether the case is a request to a server.
func (c *Case) Played() bool {
	switch c.Transport {
	case HTTP, WS, Handshake, Start:
		return true
	default:
		return false
	}
}

// Gen is a long text: prefix, count times unit, suffix.
type Gen struct {
	Prefix string `json:"prefix"`
	Unit   string `json:"unit"`
	Count  int    `json:"count"`
	Suffix string `json:"suffix"`
}

// Message is a protobuf message: its name in osqueue.v1, and its fields in JSON.
type Message struct {
	Message string         `json:"message"`
	Fields  jsontext.Value `json:"fields"`
}

// HTTPRequest is a request by HTTP. At most one of the bodies is set, with one exception: with
// Proto, BodyBase64 has the captured bytes.
type HTTPRequest struct {
	Transport     string             `json:"transport"`
	Method        string             `json:"method"`
	Path          string             `json:"path"`
	Headers       map[string]*string `json:"headers"`
	ClientHeaders map[string]*string `json:"clientHeaders"` // all that the recorded client sent
	Target        string             `json:"target"`
	Chunked       bool               `json:"chunked"`
	Envelope      bool               `json:"envelope"` // Proto is in a frame of gRPC-Web
	Parallel      int                `json:"parallel"` // how often at once; 0: once
	Body          jsontext.Value     `json:"body"`
	BodyText      *string            `json:"bodyText"`
	BodyBase64    *string            `json:"bodyBase64"`
	BodyGen       *Gen               `json:"bodyGen"`
	Proto         *Message           `json:"proto"`
}

// HTTPResponse is the recorded answer.
type HTTPResponse struct {
	Status        int               `json:"status"`
	StatusAlso    []int             `json:"statusAlso"`
	Headers       map[string]string `json:"headers"`
	HeadersAbsent []string          `json:"headersAbsent"`
	// CapturedContentType is the content type of a page of which only the status counts.
	CapturedContentType string         `json:"capturedContentType"`
	Body                jsontext.Value `json:"body"`
	BodyText            *string        `json:"bodyText"`
	BodyBase64          *string        `json:"bodyBase64"`
	Proto               *Message       `json:"proto"`
	Envelope            bool           `json:"envelope"`
	GRPCStatus          *int           `json:"grpcStatus"`
	// Parallel is the number of answers by status.
	Parallel map[string]int `json:"parallel"`
}

// WSRequest is one message, or several at once, on the connection Conn of the sequence.
type WSRequest struct {
	Transport     string           `json:"transport"`
	Path          string           `json:"path"`
	Conn          string           `json:"conn"`
	Message       jsontext.Value   `json:"message"`
	MessageText   *string          `json:"messageText"`
	MessageBase64 *string          `json:"messageBase64"` // a binary frame
	MessageGen    *Gen             `json:"messageGen"`
	Messages      []jsontext.Value `json:"messages"`
}

// WSResponse is the answer, or the answers, in any order.
type WSResponse struct {
	Message  jsontext.Value `json:"message"`
	Messages jsontext.Value `json:"messages"`
}

// HandshakeRequest requests a WebSocket. A header that is null is left out.
type HandshakeRequest struct {
	Transport     string             `json:"transport"`
	Path          string             `json:"path"`
	Headers       map[string]*string `json:"headers"`
	ClientHeaders map[string]*string `json:"clientHeaders"`
}

// HandshakeResponse is the answer, and the code with which the server then closed the
// connection.
type HandshakeResponse struct {
	Status    int               `json:"status"`
	Headers   map[string]string `json:"headers"`
	CloseCode *int              `json:"closeCode"`
}

// StartResponse says whether a server that was started on the seed serves.
type StartResponse struct {
	Started bool `json:"started"`
}

// ClientRequest is a call of the recorded client, and the server's answer to it.
type ClientRequest struct {
	Transport     string         `json:"transport"`
	Client        string         `json:"client"`
	Method        string         `json:"method"`
	ServerAnswers jsontext.Value `json:"serverAnswers"`
}

// ClientResponse is the client's result of the answer: the outcome is "resolves" or "throws".
type ClientResponse struct {
	Outcome string         `json:"outcome"`
	Value   jsontext.Value `json:"value"`
	Tag     string         `json:"tag"`
	Message string         `json:"message"`
}
