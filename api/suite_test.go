package api

import (
	"io"
	"net/http"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

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
	if n := framesSent.Load() - before; n < 500 {
		t.Errorf("%d requests went over the stream", n)
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
	rt, _ := g.s.routeOf(r)
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
	var read frame.Request
	if err := read.Parse(req.Append(nil)); err != nil {
		g.t.Fatal(err)
	}
	a := answer{header: http.Header{}}
	sent := 0
	h := &framed{s: g.s, remote: r.RemoteAddr}
	h.Answer(r.Context(), &read, senderFunc(func(out *frame.Answer) {
		sent++
		var in frame.Answer
		if err := in.Parse(out.Append(nil)); err != nil {
			g.t.Error(err)
		}
		a.status, a.body = int(in.Status), in.Body
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
