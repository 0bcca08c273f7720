package osqueue

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"

	"connectrpc.com/connect"
	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/client/api/v1"
	"osqueue/compat"
	"osqueue/compat/osqueue/queuev1"
)

// rpcPrefix is the prefix of the paths of all methods.
const rpcPrefix = "/" + queuev1.QueueServiceName + "/"

// compressFrom is the size in bytes from which answers are compressed, if the client
// accepts it.
const compressFrom = 1 << 10

// shortBytes is the size of the longest message of a method without payload: decoding a
// long list of short texts takes many times its size.
const shortBytes = 1 << 20

// newRPC returns the handlers of the service by the paths of its methods. They speak
// Connect, gRPC and gRPC-Web.
func newRPC(n *native, messageBytes int64) map[string]http.Handler {
	s := &service{native: n}
	_, all := queuev1.NewQueueServiceHandler(s,
		connect.WithConditionalHandlerOptions(func(method connect.Spec) []connect.HandlerOption {
			limit := messageBytes
			if method.Procedure != queuev1.QueueServiceSubmitJobProcedure {
				limit = min(limit, shortBytes)
			}
			return []connect.HandlerOption{connect.WithReadMaxBytes(int(limit)), withBoundedGzip(limit)}
		}),
		connect.WithCompressMinBytes(compressFrom),
		connect.WithInterceptors(connect.UnaryInterceptorFunc(settled)),
	)
	methods := make(map[string]http.Handler)
	for _, path := range []string{
		queuev1.QueueServiceSubmitJobProcedure, queuev1.QueueServiceClaimJobProcedure, queuev1.QueueServiceHeartbeatProcedure,
		queuev1.QueueServiceCompleteJobProcedure, queuev1.QueueServiceGetStatsProcedure, queuev1.QueueServiceListJobsProcedure,
	} {
		methods[path] = all
	}
	return methods
}

// serveRPC serves one call of a method.
func (h *Handler) serveRPC(method http.Handler, w http.ResponseWriter, r *http.Request) {
	plainMediaType(r.Header)
	// The legacy broker ignores this header; connect-go refuses any value but "1".
	r.Header.Del("Connect-Protocol-Version")
	ctx, end := withEnding(r.Context())
	defer end.run()
	slots := &reservation{capacity: h.capacity, held: h.cfg.Inflight.Hold()}
	atEnd(ctx, slots.release)
	r = r.WithContext(context.WithValue(ctx, reservationKey{}, slots))
	if r.Header.Get("Content-Type") == "application/json" && !isPacked(r.Header) {
		r.Body = &unmarked{ReadCloser: r.Body}
	}
	r.Body = &slottedBody{ReadCloser: r.Body, ctx: ctx, slots: slots, packed: isPacked(r.Header)}
	method.ServeHTTP(w, r)
}

// An unmarked is a JSON body without the byte order mark that may precede it.
type unmarked struct {
	io.ReadCloser
	rest *bufio.Reader // reads the body; nil before the first Read
}

// Read implements io.Reader.
func (u *unmarked) Read(into []byte) (int, error) {
	if u.rest == nil {
		u.rest = bufio.NewReaderSize(u.ReadCloser, 0) // the smallest buffer: later reads bypass it
		if mark, err := u.rest.Peek(len(byteOrderMark)); err == nil && bytes.Equal(mark, byteOrderMark) {
			_, _ = u.rest.Discard(len(mark)) // cannot fail: Peek has read it
		}
	}
	return u.rest.Read(into)
}

// plainMediaType removes the parameters of a JSON content type, so that the answer has
// the plain type too.
func plainMediaType(h http.Header) {
	given := h.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(given); err == nil && media == "application/json" {
		h.Set("Content-Type", media)
	}
}

// service is queuev1.QueueServiceHandler.
type service struct{ native *native }

var _ queuev1.QueueServiceHandler = (*service)(nil)

// errNotJSON is the legacy broker's answer to a payload that it cannot parse.
var errNotJSON = errors.New("the payload is not JSON")

// SubmitJob implements queuev1.QueueServiceHandler.
func (s *service) SubmitJob(ctx context.Context, r *connect.Request[queuev1.SubmitJobRequest]) (*connect.Response[queuev1.SubmitJobResponse], error) {
	payload, ok := compacted(r.Msg.GetPayload())
	if !ok {
		return nil, connect.NewError(connect.CodeInternal, errNotJSON)
	}
	in := submission{payload: payload, jobType: r.Msg.GetType()}
	if r.Msg.MaxAttempts != nil {
		limit := float64(r.Msg.GetMaxAttempts())
		in.maxAttempts = &limit
	}
	id, err := s.native.submit(callerOf(ctx, r), in)
	return respond(&queuev1.SubmitJobResponse{JobId: id}, err)
}

// ClaimJob implements queuev1.QueueServiceHandler.
func (s *service) ClaimJob(ctx context.Context, r *connect.Request[queuev1.ClaimJobRequest]) (*connect.Response[queuev1.ClaimJobResponse], error) {
	var types filter
	for _, name := range r.Msg.GetTypes() {
		types.add(name)
	}
	job, err := s.native.claim(callerOf(ctx, r), r.Msg.GetWorkerId(), types.all())
	out := &queuev1.ClaimJobResponse{}
	if job != nil {
		out.JobId, out.Payload, out.Type = &job.JobID, job.Payload, job.Type
		if job.Payload == nil {
			out.Payload = []byte("null")
		}
	}
	return respond(out, err)
}

// Heartbeat implements queuev1.QueueServiceHandler.
func (s *service) Heartbeat(ctx context.Context, r *connect.Request[queuev1.HeartbeatRequest]) (*connect.Response[queuev1.HeartbeatResponse], error) {
	err := s.native.heartbeat(callerOf(ctx, r), r.Msg.GetJobId(), r.Msg.GetWorkerId())
	return respond(&queuev1.HeartbeatResponse{}, err)
}

// CompleteJob implements queuev1.QueueServiceHandler.
func (s *service) CompleteJob(ctx context.Context, r *connect.Request[queuev1.CompleteJobRequest]) (*connect.Response[queuev1.CompleteJobResponse], error) {
	err := s.native.complete(callerOf(ctx, r), r.Msg.GetJobId(), r.Msg.GetWorkerId())
	return respond(&queuev1.CompleteJobResponse{}, err)
}

// GetStats implements queuev1.QueueServiceHandler.
func (s *service) GetStats(ctx context.Context, r *connect.Request[queuev1.GetStatsRequest]) (*connect.Response[queuev1.GetStatsResponse], error) {
	n, err := s.native.stats(callerOf(ctx, r))
	return respond(&queuev1.GetStatsResponse{
		Total:         whole(n.Total),
		Unclaimed:     whole(n.Unclaimed),
		InProgress:    whole(n.InProgress),
		BrokerAddress: n.BrokerAddress,
	}, err)
}

// ListJobs implements queuev1.QueueServiceHandler.
func (s *service) ListJobs(ctx context.Context, r *connect.Request[queuev1.ListJobsRequest]) (*connect.Response[queuev1.ListJobsResponse], error) {
	var out *queuev1.ListJobsResponse
	err := s.native.list(callerOf(ctx, r), func(list *heldList) error {
		atEnd(ctx, list.held.Release)
		out = &queuev1.ListJobsResponse{
			Jobs:           make([]*queuev1.JobInfo, len(list.Jobs)),
			Total:          whole(list.Total),
			Unclaimed:      whole(list.Unclaimed),
			InProgress:     whole(list.InProgress),
			CompletedTotal: whole(list.CompletedTotal),
			BrokerAddress:  list.BrokerAddress,
		}
		for i := range list.Jobs {
			out.Jobs[i] = infoOf(&list.Jobs[i])
		}
		return nil
	})
	return respond(out, err)
}

func infoOf(j *v1.Job) *queuev1.JobInfo {
	info := &queuev1.JobInfo{
		Id:          j.ID,
		Status:      j.Status,
		Payload:     j.Payload,
		Type:        j.Type,
		CreatedAt:   j.CreatedAt,
		Attempts:    j.Attempts,
		MaxAttempts: j.MaxAttempts,
		Heartbeat:   j.Heartbeat,
	}
	if j.WorkerID != nil {
		info.WorkerId = *j.WorkerID
	}
	return info
}

// whole converts a count to the type of the messages; it saturates.
func whole[T int | uint64](n T) int32 { return int32(min(n, math.MaxInt32)) }

func callerOf(ctx context.Context, r connect.AnyRequest) caller {
	return caller{ctx: ctx, remote: r.Peer().Addr}
}

// respond returns out as the answer of a method, or err as an error of Connect.
func respond[T any](out *T, err error) (*connect.Response[T], error) {
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, connect.NewError(connect.CodeDeadlineExceeded, err)
		}
		f := faultOf(err)
		return nil, connect.NewError(meaningOf(f).code, f)
	}
	return connect.NewResponse(out), nil
}

// compacted returns a payload without white space, and false if it is not JSON.
func compacted(payload []byte) (jsontext.Value, bool) {
	v := jsontext.Value(validText(payload))
	return v, v.Compact(compat.Lenient) == nil && len(v) > 0
}

// withBoundedGzip returns an option for messages that are compressed with gzip. connect-go
// unpacks the rest of a message that is too large only to report its size, and a message of some
// MiB can unpack to gigabytes. The decompressor of this option fails there.
func withBoundedGzip(messageBytes int64) connect.HandlerOption {
	return connect.WithCompression("gzip",
		func() connect.Decompressor { return &boundedGzip{limit: messageBytes + 1} },
		func() connect.Compressor { return gzip.NewWriter(nil) })
}

var errUnpacked = errors.New("the rest of the message is not unpacked")

// boundedGzip unpacks one message, and fails after limit bytes.
type boundedGzip struct {
	gzip.Reader
	limit int64
	left  int64
}

// Read implements io.Reader.
func (b *boundedGzip) Read(into []byte) (int, error) {
	if b.left <= 0 {
		return 0, errUnpacked
	}
	n, err := b.Reader.Read(into[:min(int64(len(into)), b.left)])
	b.left -= int64(n)
	return n, err
}

// Reset implements connect.Decompressor.
func (b *boundedGzip) Reset(from io.Reader) error {
	b.left = b.limit
	return b.Reader.Reset(from)
}
