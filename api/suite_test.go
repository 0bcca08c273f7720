package api

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
)

// overStream lets rig.send put every write that a stream can carry into a frame.
var overStream bool

// suite are the tests that hold for both protocols. They run over HTTP by themselves.
var suite = []func(*testing.T){
	TestClaimWithoutMaxIsTheOldShape, TestClaimMany, TestClaimTypes, TestClaimAnonymous, TestClaimAgain,
	TestAgeOfLeases, TestClaimWaits, TestClaimWaitIsBounded, TestClaimThatLostTheRace, TestClaimFails,
	TestClaimWhileWritesAreRefused, TestEnqueueKeepsPayloadsByteForByte, TestEnqueueMembers, TestEnqueueAgain,
	TestEnqueueBatch, TestEnqueueBatchLimit, TestEnqueueOptions, TestEnqueueUnique, TestEnqueueRefusals,
	TestReportsWithoutTokenAlwaysSucceed, TestReportsWithToken, TestForceComplete, TestLogOfACompletion,
	TestReportAfterTheLease, TestFailAndRelease, TestFailDelays, TestBatchReports, TestBatchReportsRefused,
	TestProgress, TestLiveLogs, TestLiveLogsOverAttempts, TestLiveLogsWait, TestLiveLogsOfABadRequest,
	TestLiveLogsRefusals, TestHeartbeatsTellOfCancellation, TestRepeatedWritesGetTheFirstAnswer,
	TestKeysAreForOneRequest, TestBadKeys, TestRefusedWritesKeepTheirKey, TestRepeatedDuplicatesAreDuplicates,
	TestRepeatedClaims, TestClaimsWithAKeyWait, TestRepeatedHeartbeatsTellOfCancellation, TestKeysAreForwarded,
	TestChangeOne, TestChangeIDs, TestBatch, TestQueueSettings, TestCronPutTwiceWithAKey, TestEveryWriteKnowsAcks,
	TestRepeatedWritesAreAcked, TestBadAcks, TestBadRequests, TestBodyDepth, TestUnknownMembers,
	TestEveryBadValueNamesItsMember, TestErrorsOfTheNode, TestEveryCodeHasAnAnswer, TestPanicsCostOneRequest,
	TestAnyNodeTakesAnyRequest,
}

func TestSuiteOverTheStream(t *testing.T) {
	before := framesSent.Load()
	overStream = true
	defer func() { overStream = false }()
	for _, test := range suite {
		name := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
		t.Run(name[strings.LastIndexByte(name, '.')+1:], test)
	}
	if n, protos := framesSent.Load()-before, protosSent.Load(); n < 500 || protos < 300 {
		t.Errorf("%d requests went over the stream, %d of them in protobuf", n, protos)
	}
}

// framesSent is the number of requests that rig.send has put into a frame.
var framesSent atomic.Int64

// fitsStream reports whether a request has nothing that a frame cannot say.
func (g *rig) fitsStream(r *http.Request) bool {
	for name, values := range r.Header {
		switch name {
		case "Content-Type":
			if values[0] != "application/json" {
				return false
			}
		case v1.HeaderIdempotencyKey, "Prefer":
			if len(values) != 1 || values[0] == "" {
				return false
			}
		default:
			return false
		}
	}
	rt, _, _ := g.s.routeOf(r)
	return rt != nil && rt.Writes()
}

// sendFramed answers r as a stream does.
func (g *rig) sendFramed(r *http.Request) answer {
	g.t.Helper()
	framesSent.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	req := frame.Request{
		Target: r.RequestURI, Method: r.Method, Body: body,
		Key: r.Header.Get(v1.HeaderIdempotencyKey), Prefer: r.Header.Get("Prefer"),
	}
	var out v1.Message // the answer in protobuf
	req.Body, out = g.protoOf(r, body)
	req.Proto = out != nil
	var read frame.Request
	if err := read.Parse(req.Append(nil)); err != nil {
		g.t.Fatal(err)
	}
	a := answer{header: http.Header{}}
	sent := 0
	h := &framed{s: g.s, remote: r.RemoteAddr}
	h.Answer(r.Context(), &read, senderFunc(func(got *frame.Answer) {
		sent++
		var in frame.Answer
		if err := in.Parse(got.Append(nil)); err != nil {
			g.t.Error(err)
		}
		a.status, a.body = int(in.Status), in.Body
		if req.Proto && in.Status == http.StatusOK != in.Proto {
			g.t.Errorf("%s %s: protobuf was answered %d with protobuf: %v", r.Method, r.RequestURI, in.Status, in.Proto)
		}
		if in.Proto {
			if err := out.ParseProto(in.Body, math.MaxInt); err != nil {
				g.t.Error(err)
			}
			if a.body, err = out.AppendJSON(nil); err != nil {
				g.t.Error(err)
			}
			if _, one := out.(*v1.ClaimedJob); one && len(in.Body) == 0 { // a claim that got none
				a.body = []byte("{}")
			}
		}
		for name, value := range map[string]string{v1.HeaderLSN: in.LSN, v1.HeaderCommitted: in.Committed} {
			if value != "" {
				a.header.Set(name, value)
			}
		}
		if in.Replayed {
			a.header.Set(v1.HeaderReplayed, "true")
		}
	}))
	if sent != 1 {
		g.t.Errorf("%s %s was answered %d times", r.Method, r.RequestURI, sent)
	}
	a.addImplied()
	if strings.Contains(r.Header.Get("Prefer"), "handling=strict") {
		a.header["Preference-Applied"] = preferStrict
	}
	return a
}

// busy are the calls whose bodies may be protobuf, with their requests and answers.
var busy = map[string][2]v1.Message{
	v1.PathJobs: {&v1.NewJob{}, &v1.Enqueued{}}, v1.PathJobsBatch: {&v1.Batch{}, &v1.BatchEnqueued{}},
	v1.PathClaim: {&v1.Claim{}, &v1.Claimed{}}, v1.PathHeartbeat: {&v1.HeartbeatBatch{}, &v1.ReportedBatch{}},
	v1.PathComplete: {&v1.CompleteBatch{}, &v1.ReportedBatch{}}, v1.PathFail: {&v1.FailBatch{}, &v1.ReportedBatch{}},
	v1.PathRelease:    {&v1.ReleaseBatch{}, &v1.ReportedBatch{}},
	v1.ActionComplete: {&v1.Complete{}, &v1.Reported{}}, v1.ActionFail: {&v1.Fail{}, &v1.Reported{}},
	v1.ActionRelease: {&v1.Release{}, &v1.Reported{}}, v1.ActionHeartbeat: {&v1.Heartbeat{}, &v1.Reported{}},
	v1.ActionProgress: {&v1.Heartbeat{}, &v1.Reported{}},
}

// busyCall returns new messages for the request and the answer of a busy call.
func busyCall(r *http.Request) (request, answer v1.Message, ok bool) {
	kind, ok := busy[r.URL.Path]
	if parts := strings.Split(r.URL.Path, "/"); !ok && len(parts) == 5 && strings.HasPrefix(r.URL.Path, v1.PathJobs) {
		kind, ok = busy[parts[4]]
	}
	if !ok || r.Method != http.MethodPost {
		return nil, nil, false
	}
	fresh := func(m v1.Message) v1.Message { return reflect.New(reflect.TypeOf(m).Elem()).Interface().(v1.Message) }
	return fresh(kind[0]), fresh(kind[1]), true
}

// protosSent is the number of bodies that were protobuf.
var protosSent atomic.Int64

// protoOf returns the body of a request in protobuf, with a message for the answer, if it is one of a busy call that says
// the same in both encodings.
func (g *rig) protoOf(r *http.Request, body []byte) (_ []byte, answer v1.Message) {
	m, answer, ok := busyCall(r)
	if !ok || bytes.Equal(body, []byte("null")) || json.Unmarshal(body, m, json.RejectUnknownMembers(true)) != nil || bytes.Contains(body, []byte(":[]")) || bytes.Contains(body, []byte("[null")) || bytes.Contains(body, []byte(",null")) {
		return body, nil
	}
	out, err := m.AppendProto(nil)
	if err != nil {
		g.t.Errorf("%s: %v", body, err)
	}
	if m.ParseProto(out, g.s.Config.Limits.Depth) != nil { // the server refuses it too: the tests want its words for JSON
		return body, nil
	}
	if claim, is := m.(*v1.Claim); is && claim.Max == nil {
		answer = new(v1.ClaimedJob)
	}
	protosSent.Add(1)
	return out, answer
}

// addImplied adds the headers that an answer in a frame leaves out, because its status and its
// body imply them.
func (a *answer) addImplied() {
	switch {
	case a.status >= 400:
		a.header.Set("Content-Type", v1.MediaTypeProblem)
		if p, ok := jsonOf(a.body).(object); ok && p["retryAfterMs"] != nil {
			if ms, ok := p["retryAfterMs"].(float64); ok {
				a.header.Set("Retry-After", strconv.Itoa((int(ms)+999)/1000))
			}
		}
	case a.status != http.StatusNoContent:
		a.header.Set("Content-Type", jsonType[0])
	}
}

// senderFunc is a stream.Sender.
type senderFunc func(*frame.Answer)

// Send implements stream.Sender.
func (f senderFunc) Send(a *frame.Answer) { f(a) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
