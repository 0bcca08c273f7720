package osqueue

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"osqueue/compat/osqueue/queuev1"
)

// http2 is the transport that gRPC needs: HTTP/2 without TLS.
func http2() *http.Transport {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: p}
}

// protocols are the protocols of the clients.
var protocols = map[string]struct {
	transport func() *http.Transport
	options   []connect.ClientOption
}{
	"connect binary":   {func() *http.Transport { return new(http.Transport) }, nil},
	"connect JSON":     {func() *http.Transport { return new(http.Transport) }, []connect.ClientOption{connect.WithProtoJSON()}},
	"connect gzip":     {func() *http.Transport { return new(http.Transport) }, []connect.ClientOption{connect.WithSendGzip()}},
	"connect, HTTP/2":  {http2, nil},
	"gRPC":             {http2, []connect.ClientOption{connect.WithGRPC()}},
	"gRPC gzip":        {http2, []connect.ClientOption{connect.WithGRPC(), connect.WithSendGzip()}},
	"gRPC-Web":         {func() *http.Transport { return new(http.Transport) }, []connect.ClientOption{connect.WithGRPCWeb()}},
	"gRPC-Web, HTTP/2": {http2, []connect.ClientOption{connect.WithGRPCWeb()}},
	"gRPC-Web, JSON":   {func() *http.Transport { return new(http.Transport) }, []connect.ClientOption{connect.WithGRPCWeb(), connect.WithProtoJSON()}},
}

func TestFlowOfRealClients(t *testing.T) { //nolint:tparallel // the cases share a cluster
	t.Parallel()
	c := start(t, 3, Limits{})
	for who, n := range c.asked() {
		for name, p := range protocols {
			t.Run(name+", "+who, func(t *testing.T) {
				transport := p.transport()
				defer transport.CloseIdleConnections()
				f := &flow{t: t, client: queuev1.NewQueueServiceClient(&http.Client{Transport: transport}, "http://"+n.address, p.options...)}
				f.play()
				f.errors()
				c.reset()
			})
		}
	}
}

// flow is the life of a job over a client.
type flow struct {
	t      *testing.T
	client queuev1.QueueServiceClient
}

func must[T any](t *testing.T, r *connect.Response[T], err error) *T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return r.Msg
}

func (f *flow) submit(payload, jobType string, maxAttempts *int32) string {
	f.t.Helper()
	r, err := f.client.SubmitJob(context.Background(), connect.NewRequest(&queuev1.SubmitJobRequest{
		Payload: []byte(payload), Type: jobType, MaxAttempts: maxAttempts,
	}))
	id := must(f.t, r, err).GetJobId()
	if !uuid4.MatchString(id) {
		f.t.Errorf("the id is %q", id)
	}
	return id
}

func (f *flow) claim(worker string, types ...string) *queuev1.ClaimJobResponse {
	f.t.Helper()
	r, err := f.client.ClaimJob(context.Background(), connect.NewRequest(&queuev1.ClaimJobRequest{WorkerId: worker, Types: types}))
	return must(f.t, r, err)
}

func (f *flow) complete(id, worker string) {
	f.t.Helper()
	r, err := f.client.CompleteJob(context.Background(), connect.NewRequest(&queuev1.CompleteJobRequest{JobId: id, WorkerId: worker}))
	must(f.t, r, err)
}

func (f *flow) list() *queuev1.ListJobsResponse {
	f.t.Helper()
	r, err := f.client.ListJobs(context.Background(), connect.NewRequest(&queuev1.ListJobsRequest{}))
	return must(f.t, r, err)
}

var uuid4 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func (f *flow) play() {
	t, zero := f.t, int32(0)
	before := f.list()
	mail := f.submit(" { \"b\" : 1 ,\n \"a\" : [ 1.50 , \"\\u00e9\" ] } ", "mail", nil)
	sms := f.submit(`null`, "sms", &zero)
	plain := f.submit(`[]`, "", nil)

	list := f.list()
	if len(list.GetJobs()) != 3 || list.GetTotal() != 3 || list.GetUnclaimed() != 3 || list.GetInProgress() != 0 ||
		list.GetCompletedTotal() != before.GetCompletedTotal() || list.GetBrokerAddress() == "" {
		t.Fatalf("the list is %v", list)
	}
	first := list.GetJobs()[0]
	if first.GetId() != mail || first.GetStatus() != "unclaimed" || string(first.GetPayload()) != `{"b":1,"a":[1.50,"\u00e9"]}` ||
		first.GetType() != "mail" || first.GetCreatedAt() < 1e12 || first.GetAttempts() != 0 || first.GetMaxAttempts() != 0 || first.GetHeartbeat() != 0 {
		t.Errorf("the first job is %v", first)
	}
	if got := f.claim("w", "nope", "sms"); got.GetJobId() != sms || string(got.GetPayload()) != "null" || got.GetType() != "sms" {
		t.Errorf("claimed %v, want %s", got, sms)
	}
	if got := f.claim(""); got.GetJobId() != mail {
		t.Errorf("claimed %v, want %s", got, mail)
	}
	if got := f.claim("w", "nope"); got.JobId != nil || got.Payload != nil || got.GetType() != "" {
		t.Errorf("claimed %v", got)
	}
	r, err := f.client.Heartbeat(context.Background(), connect.NewRequest(&queuev1.HeartbeatRequest{JobId: sms, WorkerId: "w"}))
	must(t, r, err)
	f.complete(mail, "w") // who does not hold it
	for _, id := range []string{"", ".", "..", "a/b", "%", "ü", strings.Repeat("x", 5000), plain} {
		f.complete(id, "w") // what is not held, or not there
	}
	if n := f.list().GetInProgress(); n != 2 {
		t.Errorf("%d in progress, want 2", n)
	}
	f.complete(mail, "") // the worker without a name
	f.complete(sms, "w")
	if got := f.claim("w"); got.GetJobId() != plain || got.GetType() != "" {
		t.Errorf("claimed %v, want %s", got, plain)
	}
	f.complete(plain, "w")
	f.complete(plain, "w")
	s, err := f.client.GetStats(context.Background(), connect.NewRequest(&queuev1.GetStatsRequest{}))
	if got := must(t, s, err); got.GetTotal() != 0 || got.GetUnclaimed() != 0 || got.GetInProgress() != 0 || got.GetBrokerAddress() != before.GetBrokerAddress() {
		t.Errorf("the figures are %v", got)
	}
	if done := f.list().GetCompletedTotal() - before.GetCompletedTotal(); done != 3 {
		t.Errorf("%d completed, want 3", done)
	}
}

func (f *flow) errors() {
	for _, payload := range []string{"", "nope", "{", `{"a":1}x`, "\x00"} {
		_, err := f.client.SubmitJob(context.Background(), connect.NewRequest(&queuev1.SubmitJobRequest{Payload: []byte(payload)}))
		if connect.CodeOf(err) != connect.CodeInternal {
			f.t.Errorf("payload %q: %v", payload, err)
		}
	}
	long := strings.Repeat("t", 10_000)
	_, err := f.client.SubmitJob(context.Background(), connect.NewRequest(&queuev1.SubmitJobRequest{Payload: []byte("1"), Type: long}))
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		f.t.Errorf("a type of 10 000 bytes: %v", err)
	}
	if n := len(f.list().GetJobs()); n != 0 {
		f.t.Errorf("%d jobs were queued", n)
	}
}

// A message may be larger than a body of REST, up to its own limit.
func TestLargeMessages(t *testing.T) { //nolint:tparallel // the cases share a cluster
	t.Parallel()
	c := start(t, 2, Limits{MessageBytes: 3 << 20, LargeMessages: 1})
	for who, n := range c.asked() {
		for name, p := range protocols {
			t.Run(name+", "+who, func(t *testing.T) {
				transport := p.transport()
				defer transport.CloseIdleConnections()
				f := &flow{t: t, client: queuev1.NewQueueServiceClient(&http.Client{Transport: transport}, "http://"+n.address, p.options...)}
				payload := `"` + strings.Repeat("a", 2<<20) + `"`
				id := f.submit(payload, "large", nil)
				if got := f.claim("w", "large"); got.GetJobId() != id || string(got.GetPayload()) != payload {
					t.Errorf("claimed %s with %d bytes", got.GetJobId(), len(got.GetPayload()))
				}
				f.complete(id, "w")
				_, err := f.client.SubmitJob(context.Background(), connect.NewRequest(&queuev1.SubmitJobRequest{
					Payload: []byte(`"` + strings.Repeat("a", 4<<20) + `"`),
				}))
				if connect.CodeOf(err) != connect.CodeResourceExhausted {
					t.Errorf("4 MiB: %v", err)
				}
			})
		}
	}
}

const rpc = rpcPrefix

// Requests that a client without a library may send, and their answers.
func TestConnectOverHTTP(t *testing.T) { //nolint:tparallel // the cases share a cluster
	t.Parallel()
	c := start(t, 1, Limits{})
	at := c.leader().address
	if got := request(t, "POST", at, rpc+"GetStats", `{}`); !regexp.MustCompile(`^{"brokerAddress":\s?"[^"]*"}$`).MatchString(got.body) {
		t.Errorf("the figures of an empty queue are %s", got.body)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	fmt.Fprint(z, `{"payload":"MQ==","type":"packed"}`)
	z.Close()
	const js = "application/json"
	for name, test := range map[string]struct {
		method, path, media, body string
		headers                   []string
		status                    int
		wantMedia, want           string // want: a regular expression
	}{
		"charset":               {path: "GetStats", media: "Application/JSON; charset=UTF-8", body: `{}`, status: 200, wantMedia: js, want: `brokerAddress`},
		"unknown member":        {path: "GetStats", body: `{"x":{"y":[1]}}`, status: 200, wantMedia: js, want: `brokerAddress`},
		"snake case":            {path: "SubmitJob", body: `{"payload":"MQ==","max_attempts":2}`, status: 200, wantMedia: js, want: `jobId`},
		"null":                  {path: "SubmitJob", body: `{"payload":"MQ==","maxAttempts":null,"type":null}`, status: 200, wantMedia: js, want: `jobId`},
		"integer as text":       {path: "SubmitJob", body: `{"payload":"MQ==","maxAttempts":"5"}`, status: 200, wantMedia: js, want: `jobId`},
		"integer with point":    {path: "SubmitJob", body: `{"payload":"MQ==","maxAttempts":5.0}`, status: 200, wantMedia: js, want: `jobId`},
		"negative":              {path: "SubmitJob", body: `{"payload":"MQ==","maxAttempts":-3}`, status: 200, wantMedia: js, want: `jobId`},
		"base64url":             {path: "SubmitJob", body: `{"payload":"Ij8_Ig"}`, status: 200, wantMedia: js, want: `jobId`},
		"gzip":                  {path: "SubmitJob", body: packed.String(), headers: []string{"Content-Encoding", "gzip"}, status: 200, wantMedia: js, want: `jobId`},
		"identity":              {path: "GetStats", body: `{}`, headers: []string{"Content-Encoding", "identity"}, status: 200, wantMedia: js, want: `brokerAddress`},
		"timeout":               {path: "GetStats", body: `{}`, headers: []string{"Connect-Timeout-Ms", "5000"}, status: 200, wantMedia: js, want: `brokerAddress`},
		"no payload":            {path: "SubmitJob", body: `{}`, status: 500, wantMedia: js, want: `"code":"internal"`},
		"payload no JSON":       {path: "SubmitJob", body: `{"payload":"e25vcGU="}`, status: 500, wantMedia: js, want: `"code":"internal"`},
		"payload a number":      {path: "SubmitJob", body: `{"payload":5}`, status: 400, wantMedia: js, want: `"code":"invalid_argument"`},
		"no base64":             {path: "SubmitJob", body: `{"payload":"***"}`, status: 400, wantMedia: js, want: `"code":"invalid_argument"`},
		"fraction":              {path: "SubmitJob", body: `{"payload":"MQ==","maxAttempts":1.5}`, status: 400, wantMedia: js, want: `"code":"invalid_argument"`},
		"out of range":          {path: "SubmitJob", body: `{"payload":"MQ==","maxAttempts":2147483648}`, status: 400, wantMedia: js, want: `"code":"invalid_argument"`},
		"wrong type":            {path: "ClaimJob", body: `{"workerId":5}`, status: 400, wantMedia: js, want: `"code":"invalid_argument"`},
		"invalid JSON":          {path: "GetStats", body: `{bad`, status: 400, wantMedia: js, want: `"code":"invalid_argument"`},
		"empty body":            {path: "GetStats", status: 400, wantMedia: js, want: `"code":"invalid_argument"`},
		"timeout abc":           {path: "GetStats", body: `{}`, headers: []string{"Connect-Timeout-Ms", "abc"}, status: 400, wantMedia: js, want: `"code":"invalid_argument"`},
		"timeout -5":            {path: "GetStats", body: `{}`, headers: []string{"Connect-Timeout-Ms", "-5"}, status: 400, wantMedia: js, want: `"code":"invalid_argument"`},
		"not gzip":              {path: "GetStats", body: `{}`, headers: []string{"Content-Encoding", "gzip"}, status: 400, wantMedia: js, want: `"code":"invalid_argument"`},
		"unknown encoding":      {path: "GetStats", body: `{}`, headers: []string{"Content-Encoding", "zstd"}, status: 501, wantMedia: js, want: `"code":"unimplemented"`},
		"undecodable":           {path: "ClaimJob", media: "application/proto", body: "\x0a\x20ab", status: 400, wantMedia: js, want: `"code":"invalid_argument"`},
		"error of a binary":     {path: "SubmitJob", media: "application/proto", body: "\x0a\x04nope", status: 500, wantMedia: js, want: `"code":"internal"`},
		"empty binary":          {path: "ClaimJob", media: "application/proto", headers: []string{"Connect-Protocol-Version", "1"}, status: 200, wantMedia: "application/proto"},
		"protocol version 9":    {path: "GetStats", body: `{}`, headers: []string{"Connect-Protocol-Version", "9"}, status: 200, wantMedia: js, want: `brokerAddress`},
		"text":                  {path: "GetStats", media: "text/plain", body: `{}`, status: 415, want: `^$`},
		"no type":               {path: "GetStats", media: "-", body: `{}`, status: 415, want: `^$`},
		"streaming":             {path: "GetStats", media: "application/connect+proto", body: "\x00\x00\x00\x00\x00", status: 415, want: `^$`},
		"GET":                   {method: "GET", path: "GetStats", status: 405, want: `^$`},
		"PUT":                   {method: "PUT", path: "GetStats", status: 405, want: `^$`},
		"DELETE":                {method: "DELETE", path: "GetStats", status: 405, want: `^$`},
		"unknown method":        {path: "Nope", body: `{}`, status: 404, wantMedia: "application/json; charset=utf-8", want: `^{"message":"Route POST:/osqueue.v1.QueueService/Nope not found","error":"Not Found","statusCode":404}$`},
		"method in other case":  {path: "getStats", body: `{}`, status: 404, wantMedia: "application/json; charset=utf-8", want: `"statusCode":404`},
		"method with a slash":   {path: "GetStats/", body: `{}`, status: 404, wantMedia: "application/json; charset=utf-8", want: `"statusCode":404`},
		"the service by itself": {path: "", body: `{}`, status: 404, wantMedia: "application/json; charset=utf-8", want: `"statusCode":404`},
	} {
		t.Run(name, func(t *testing.T) {
			headers := test.headers
			switch test.media {
			case "":
			case "-":
				headers = append(headers, "Content-Type", "")
			default:
				headers = append(headers, "Content-Type", test.media)
			}
			method := test.method
			if method == "" {
				method = "POST"
			}
			got := request(t, method, at, rpc+test.path, test.body, headers...)
			if got.status != test.status || got.header.Get("Content-Type") != test.wantMedia || !regexp.MustCompile(test.want).MatchString(got.body) {
				t.Errorf("answered %d %q %s", got.status, got.header.Get("Content-Type"), got.body)
			}
		})
	}
	if got := request(t, "POST", at, rpc+"ListJobs", `{}`, "Accept-Encoding", "identity"); !strings.Contains(got.body, `"type":"packed"`) {
		t.Errorf("the list is %s", got.body)
	}
}

// TestBoundedGzip: a message that unpacks to more than its limit is not unpacked further.
func TestBoundedGzip(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b := &boundedGzip{limit: 101}
	for range 2 {
		if err := b.Reset(bytes.NewReader(packed.Bytes())); err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, b); n != 101 || !errors.Is(err, errUnpacked) {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
}
