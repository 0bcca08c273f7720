package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"osqueue/api/core"
	"osqueue/fsm"
	"osqueue/fsm/artefacts"
	"osqueue/storage"
)

// transfers names what a client makes too many of.
const transfers = "uploads and downloads"

// upload is PUT /v1/artefacts/{id}. Any node takes the bytes.
func (s *Server) upload(h *httpCall) error {
	if s.Config.Objects == nil {
		return core.ErrNoArtefacts
	}
	if err := s.Reach(&h.Call); err != nil {
		return err
	}
	a := s.Node.View().Artefact(h.Owned(h.Name))
	if a == nil || a.ReleasedMs != 0 {
		return core.NotThere("artefact", "the artefact is not reserved, or its reservation has ended; reserve it again. A node that "+
			"does not lead may not know it yet: give the minLsn of the reservation")
	}
	if length := h.r.ContentLength; length >= 0 && length != a.Size {
		return core.Fail(core.BadRequest, "the body has %d bytes; %d are reserved", length, a.Size)
	}
	leave, err := h.Enter(s.Shares.Streams, core.TooManyStreams, transfers)
	if err != nil {
		return err
	}
	defer leave()
	if there, err := s.HasObject(h.Ctx, a); there || err != nil { // the answer to the first upload was lost
		return errOr(err, h.SendNothing)
	}
	ctx, cancel := context.WithDeadline(h.Ctx, time.Now().Add(time.Duration(a.UntilMs-s.Node.Now())*time.Millisecond))
	defer cancel()
	body := s.pace(ctx, h, h.r.Body)
	defer body.stop()
	w := s.Config.Objects.PutStream(ctx, artefacts.Key(a), body, storage.Content{Size: a.Size, Sum: storage.Sum(a.Sum)})
	switch {
	case w.Outcome == storage.Committed:
		return h.SendNothing()
	case w.Outcome == storage.Conflict:
		there, err := s.HasObject(h.Ctx, a)
		if there || err != nil {
			return errOr(err, h.SendNothing)
		}
		return core.Fail(core.BadRequest, "the bucket has other bytes for the artefact; reserve another one")
	case body.err != nil:
		return core.BrokenBody(body.err, a.Size)
	case errors.Is(w.Err, storage.ErrContent):
		f := core.Fail(core.BadRequest, "the upload does not have the reserved size and SHA-256; the bucket keeps nothing of it")
		f.Cause = w.Err
		return f
	}
	return core.BucketFailed(w.Err)
}

func errOr(err error, otherwise func() error) error {
	if err != nil {
		return err
	}
	return otherwise()
}

// movesIn is how often a time limit moves on within it.
const movesIn = 8

// pacedBody reads a body as long as bytes come, and moves the time limits of its connection on. It fails when its context ends.
type pacedBody struct {
	ctx    context.Context
	r      io.Reader
	within time.Duration // each read
	rc     *http.ResponseController
	err    error // of the reader; nil: none, or its end

	mu    sync.Mutex
	moved time.Time // when the limits were moved on
	stop  func() bool
}

func (s *Server) pace(ctx context.Context, h *httpCall, r io.Reader) *pacedBody {
	b := &pacedBody{ctx: ctx, r: r, within: s.Config.Timeouts.Body, rc: http.NewResponseController(h.ResponseWriter)}
	stopClosing := context.AfterFunc(s.Closing, b.end)
	stop := context.AfterFunc(ctx, b.end)
	b.stop = func() bool { return stopClosing() && stop() }
	return b
}

// end makes a Read under way return.
func (b *pacedBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moved = time.Now().Add(1000 * time.Hour)
	_ = b.rc.SetReadDeadline(time.Now()) // a transport without deadlines ends the read with the request
}

// Read implements io.Reader.
func (b *pacedBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	if now := time.Now(); now.Sub(b.moved) >= b.within/movesIn {
		b.moved = now
		_ = b.rc.SetReadDeadline(now.Add(b.within))
		_ = b.rc.SetWriteDeadline(now.Add(2 * b.within)) // the answer follows the body
	}
	b.mu.Unlock()
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// download is GET /v1/jobs/{id}/artefacts/{name}.
func (s *Server) download(h *httpCall) error {
	if s.Config.Objects == nil {
		return core.ErrNoArtefacts
	}
	if err := s.Reach(&h.Call); err != nil {
		return err
	}
	j := s.Node.Job(h.Name)
	if j == nil {
		return fsm.NotFound.Err()
	}
	if err := s.CheckJob(&h.Call, j); err != nil {
		return err
	}
	a := s.Node.View().ArtefactOf(h.Name, h.Part)
	if a == nil {
		return core.NotThere("artefact", fmt.Sprintf("the job has no artefact %q; GET the path before it lists those that it has", core.Shown(h.Part)))
	}
	signed, err := s.Config.Objects.SignGet(h.Ctx, artefacts.Key(a), core.SignedFor)
	switch {
	case err == nil && signed.Method == http.MethodGet && len(signed.Header) == 0:
		h.Header()["Location"] = []string{signed.URL}
		h.WriteHeader(http.StatusFound)
		return nil
	case err != nil && !errors.Is(err, errors.ErrUnsupported):
		s.Log.Warn("cannot sign a URL for an artefact; its bytes pass through the node", "error", err)
	}
	leave, err := h.Enter(s.Shares.Streams, core.TooManyStreams, transfers)
	if err != nil {
		return err
	}
	defer leave()
	if there, err := s.HasObject(h.Ctx, a); !there || err != nil {
		return cmp.Or[error](err, core.ErrArtefactLost)
	}
	return s.serveObject(h, a)
}

// serveObject answers with the bytes of an artefact, or the part of them that the request asks for.
func (s *Server) serveObject(h *httpCall, a *fsm.Artefact) error {
	ctx, cancel := context.WithCancel(h.Ctx)
	defer cancel()
	defer context.AfterFunc(s.Closing, cancel)()
	o := &stored{ctx: ctx, from: s.Config.Objects, a: a, within: s.Config.Timeouts.Answer, rc: http.NewResponseController(h.ResponseWriter)}
	defer o.close()
	header := h.Header()
	header["Content-Type"] = []string{"application/octet-stream"}
	header["Content-Disposition"] = []string{"attachment"} // a browser must not show it as a page of this server
	header["Etag"] = []string{strconv.Quote(fmt.Sprintf("%x", a.Sum))}
	http.ServeContent(h, h.r, "", time.Time{}, o)
	if o.err != nil {
		h.Broken = true
		s.Log.Debug("an artefact was not sent to its end", "artefact", a.Id, "error", o.err)
	}
	return nil
}

// stored reads and seeks in the object of an artefact.
type stored struct {
	ctx    context.Context
	from   storage.Streamer
	a      *fsm.Artefact
	at     int64
	body   io.ReadCloser // from at; nil: not open
	within time.Duration // each write to the client
	rc     *http.ResponseController
	moved  time.Time
	err    error // of a read
}

// Read implements io.Reader.
func (o *stored) Read(p []byte) (n int, err error) {
	if o.at >= o.a.Size {
		return 0, io.EOF
	}
	if now := time.Now(); now.Sub(o.moved) >= o.within/movesIn {
		o.moved = now
		_ = o.rc.SetWriteDeadline(now.Add(o.within))
	}
	if o.body == nil {
		if o.body, err = o.from.GetRange(o.ctx, artefacts.Key(o.a), o.at, o.a.Size-o.at); err != nil {
			o.err = err
			return 0, err
		}
	}
	n, err = o.body.Read(p)
	o.at += int64(n)
	if err != nil && o.at < o.a.Size {
		o.err = err
	}
	return n, err
}

// Seek implements io.Seeker.
func (o *stored) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += o.at
	case io.SeekEnd:
		offset += o.a.Size
	}
	if offset != o.at {
		o.close()
		o.at = offset
	}
	return offset, nil
}

func (o *stored) close() {
	if o.body != nil {
		_ = o.body.Close() // it was read as far as it was needed
		o.body = nil
	}
}
