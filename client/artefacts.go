package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	v1 "osqueue/client/api/v1"
)

// An artefact is a file of a job, up to 5 GiB, whose bytes are in the bucket of the cluster: a payload or a result that is too
// large for a message. A producer uploads it before it enqueues the job, and a worker while it runs the job:
//
//	id := client.NewID()
//	film, err := c.Upload(ctx, id, "film.mp4", file)
//	_, err = c.Enqueue(ctx, client.NewJob{ID: id, Type: "cut", Artefacts: []client.NamedArtefact{film}})

// NamedArtefact is an uploaded artefact that has no job yet.
type NamedArtefact = v1.NamedArtefact

// StreamCipher is a Cipher that encrypts what is too large for one text. Those of package seal are.
type StreamCipher interface {
	Cipher
	// SealStream returns a writer that encrypts to w. about names what the bytes belong to.
	SealStream(ctx context.Context, w io.Writer, about ...string) (io.WriteCloser, error)
	// OpenStream returns the plaintext of a stream that has size bytes of ciphertext. open opens the ciphertext at an offset.
	OpenStream(ctx context.Context, open func(offset int64) (io.ReadCloser, error), size int64, about ...string) (io.ReadSeekCloser, error)
}

var errNoStreams = errors.New("Config.Cipher cannot encrypt artefacts: it is no StreamCipher")

// Upload sends the bytes of r to the cluster, for an artefact of a job: the one with the id jobID, which need not exist yet. It is to
// be given to the job within a day. The bytes are read twice: what cannot seek, and what Config.Cipher encrypts, goes through a
// temporary file.
func (c *Client) Upload(ctx context.Context, jobID, name string, r io.Reader) (NamedArtefact, error) {
	const op = "upload artefact"
	if jobID == "" {
		return NamedArtefact{}, local(op, errNoID)
	}
	f, err := c.spool(ctx, r, jobID, name)
	if err != nil {
		return NamedArtefact{}, local(op, err)
	}
	defer f.remove()
	in := &v1.NewArtefact{Size: f.size, SHA256: hex.EncodeToString(f.sum.Sum(nil)), Sealed: c.cfg.Cipher != nil}
	made, err := sendWrite[v1.ArtefactReserved](ctx, c.caller, call{op: op, name: name, path: v1.PathArtefacts, in: in})
	if err != nil {
		return NamedArtefact{}, err
	}
	if made.URL == "" || !c.putSigned(ctx, f, made) { // a node can reach the store in any case
		err = c.putOverNode(ctx, f, made)
	}
	return NamedArtefact{Name: name, ID: made.ID}, err
}

// spooled has the bytes of an upload.
type spooled struct {
	r    io.ReadSeeker
	from int64 // where they begin
	size int64
	sum  hash.Hash
	temp *os.File // nil: none
}

// spool reads the bytes of an upload once, and encrypts them.
func (c *caller) spool(ctx context.Context, r io.Reader, about ...string) (f *spooled, err error) {
	f = &spooled{sum: sha256.New()}
	defer func() {
		if err != nil {
			f.remove()
		}
	}()
	if s, ok := r.(io.ReadSeeker); ok && c.cfg.Cipher == nil {
		if f.from, err = s.Seek(0, io.SeekCurrent); err == nil { // a pipe is a file that cannot
			f.r = s
			f.size, err = io.Copy(f.sum, s)
			return f, err
		}
	}
	if f.temp, err = os.CreateTemp("", "osqueue-artefact-"); err != nil {
		return f, err
	}
	f.r = f.temp
	to := f.counted(f.temp)
	if c.cfg.Cipher != nil {
		with, ok := c.cfg.Cipher.(StreamCipher)
		if !ok {
			return f, errNoStreams
		}
		sealed, err := with.SealStream(ctx, to, about...)
		if err != nil {
			return f, err
		}
		if _, err = io.Copy(sealed, r); err != nil {
			return f, err
		}
		return f, sealed.Close()
	}
	_, err = io.Copy(to, r)
	return f, err
}

// counted returns a writer to w that counts and hashes.
func (f *spooled) counted(w io.Writer) io.Writer {
	return io.MultiWriter(w, f.sum, writerFunc(func(p []byte) (int, error) {
		f.size += int64(len(p))
		return len(p), nil
	}))
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

func (f *spooled) remove() {
	if f.temp != nil {
		_, _ = f.temp.Close(), os.Remove(f.temp.Name()) // the system removes what is left
	}
}

// body returns the bytes from their beginning.
func (f *spooled) body() (io.ReadCloser, error) {
	if _, err := f.r.Seek(f.from, io.SeekStart); err != nil {
		return nil, err
	}
	return io.NopCloser(io.LimitReader(f.r, f.size)), nil
}

// carry makes the bytes the body of a request.
func (f *spooled) carry(req *http.Request) (err error) {
	if req.Body, err = f.body(); err != nil {
		return err
	}
	req.ContentLength = f.size
	if f.size == 0 {
		req.Body = http.NoBody
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	req.Header.Set("Expect", "100-continue") // a refusal comes before the bytes
	return nil
}

// stores is for requests to the store of the cluster, which has no certificate of the cluster and gets no token.
var stores = &http.Client{}

// putSigned sends the bytes to the store. It returns false if the store does not take them.
func (c *caller) putSigned(ctx context.Context, f *spooled, made v1.ArtefactReserved) bool {
	ctx, end := c.whileOpen(ctx)
	defer end()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, made.URL, nil)
	if err != nil || f.carry(req) != nil {
		return false
	}
	req.Header.Del("Content-Type") // it is not signed
	for name, value := range made.Headers {
		req.Header.Set(name, value)
	}
	resp, err := stores.Do(req)
	if err != nil {
		c.cfg.Logger.Debug("the store cannot be reached; a node passes the bytes on", "error", plain(err))
		return false
	}
	defer resp.Body.Close()
	defer drain(resp.Body)
	return resp.StatusCode/100 == 2
}

// putOverNode sends the bytes to any node. It repeats as other calls do.
func (c *caller) putOverNode(ctx context.Context, f *spooled, made v1.ArtefactReserved) error {
	k := call{
		op: "upload artefact", name: made.ID, method: http.MethodPut, prefix: v1.PathArtefacts, anywhere: true, lasting: true,
		query: url.Values{v1.ParamMinLSN: {made.LSN}},
	}
	resp, err := c.transfer(ctx, k, f.carry)
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}

// transfer makes a call whose body or answer is not read into memory. The caller closes the body of the answer.
func (c *caller) transfer(ctx context.Context, k call, change func(*http.Request) error) (*http.Response, error) {
	if err := k.prepare(false); err != nil {
		return nil, local(k.op, err)
	}
	t := &trial{call: k}
	for {
		if err := c.ended(ctx); err != nil {
			return nil, t.fail(err)
		}
		tgt := c.target(ctx, k)
		resp, o := c.transferOnce(ctx, tgt, k, change)
		v := judge(o, time.Now())
		if v.done {
			return resp, nil
		}
		t.note(tgt, o, v)
		if !c.again(ctx, t, tgt, v) {
			return nil, t.fail(c.ended(ctx))
		}
	}
}

func (c *caller) transferOnce(ctx context.Context, tgt *target, k call, change func(*http.Request) error) (*http.Response, outcome) {
	ctx, end := c.whileOpen(ctx)
	req, err := c.request(ctx, tgt.url, k)
	if err == nil {
		err = change(req)
	}
	if err != nil {
		end()
		return nil, outcome{err: err}
	}
	resp, err := c.http.Do(req)
	if err == nil && resp.StatusCode == http.StatusFound {
		resp, err = follow(ctx, resp, req)
	}
	if err != nil {
		end()
		return nil, outcome{err: plain(err)}
	}
	o := outcome{status: resp.StatusCode, retry: resp.Header.Get("Retry-After")}
	if o.status/100 == 2 {
		resp.Body = &endingBody{resp.Body, end}
		return resp, o
	}
	defer end()
	defer resp.Body.Close()
	body, err := readBody(resp, c.cfg.MaxAnswerBytes)
	o.problem, o.err = readProblem(body), err
	return nil, o
}

// endingBody calls end when it is closed.
type endingBody struct {
	io.ReadCloser
	end func()
}

func (b *endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// follow asks the store to which a node redirects.
func follow(ctx context.Context, from *http.Response, first *http.Request) (*http.Response, error) {
	drain(from.Body)
	_ = from.Body.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.Header.Get("Location"), nil)
	if err != nil {
		return nil, err
	}
	if part := first.Header.Get("Range"); part != "" {
		req.Header.Set("Range", part)
	}
	return stores.Do(req)
}

// Artefacts returns the artefacts of a job, in the order of names.
func (c *Client) Artefacts(ctx context.Context, jobID string) ([]v1.Artefact, error) {
	list, err := c.artefacts(ctx, jobID)
	return list.Artefacts, err
}

func (c *caller) artefacts(ctx context.Context, jobID string) (v1.Artefacts, error) {
	return sendRead[v1.Artefacts](ctx, c, call{op: "list artefacts", prefix: v1.PathJobs, name: jobID, action: v1.ActionArtefacts})
}

var errOtherBytes = errors.New("the artefact does not have the bytes that were announced: its SHA-256 is another one")

// OpenArtefact returns the bytes of an artefact, decrypted by Config.Cipher. A Read fails if they are not those that were uploaded;
// only io.EOF says that all have come. The caller closes it.
func (c *Client) OpenArtefact(ctx context.Context, jobID, name string) (io.ReadCloser, error) {
	const op = "open artefact"
	list, err := c.artefacts(ctx, jobID)
	if err != nil {
		return nil, err
	}
	for _, a := range list.Artefacts {
		if a.Name != name {
			continue
		}
		r := &artefactReader{a: a, sum: sha256.New(), open: func(at int64) (io.ReadCloser, error) { return c.openAt(ctx, jobID, name, list.LSN, at) }}
		if !a.Sealed {
			if c.cfg.SealedOnly {
				return nil, &SealError{JobID: jobID, What: "artefact", Err: ErrNotSealed}
			}
			return r, r.reopen()
		}
		with, ok := c.cfg.Cipher.(StreamCipher)
		if !ok {
			return nil, &SealError{JobID: jobID, What: "artefact", Err: ErrNoCipher}
		}
		plain, err := with.OpenStream(ctx, r.open, a.Size, jobID, name)
		if err != nil {
			return nil, &SealError{JobID: jobID, What: "artefact", Err: err}
		}
		return plain, nil
	}
	return nil, &Error{Op: op, Name: jobID, Status: http.StatusNotFound, Tag: v1.TagNotFound, Message: fmt.Sprintf("the job has no artefact %q", name), Committed: CommittedNo}
}

// openAt opens the bytes of an artefact at an offset.
func (c *caller) openAt(ctx context.Context, jobID, name, lsn string, at int64) (io.ReadCloser, error) {
	k := call{
		op: "open artefact", name: jobID, prefix: v1.PathJobs, action: v1.ActionArtefacts + "/" + url.PathEscape(name), anywhere: true, lasting: true,
		query: url.Values{v1.ParamMinLSN: {lsn}},
	}
	resp, err := c.transfer(ctx, k, func(req *http.Request) error {
		req.Header.Set("Accept", "application/octet-stream, "+v1.MediaTypeProblem)
		if at > 0 {
			req.Header.Set("Range", "bytes="+strconv.FormatInt(at, 10)+"-")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if at > 0 && resp.StatusCode != http.StatusPartialContent {
		return nil, errors.Join(odd(k.op, errors.New("the answer is not the part that was asked for")), resp.Body.Close())
	}
	return resp.Body, nil
}

// artefactReader reads an artefact to its end, and compares its hash. If a connection breaks, it continues on another one.
type artefactReader struct {
	a     v1.Artefact
	sum   hash.Hash
	open  func(at int64) (io.ReadCloser, error)
	body  io.ReadCloser
	at    int64
	since int64 // where body began
}

func (r *artefactReader) reopen() (err error) {
	r.since = r.at
	r.body, err = r.open(r.at)
	return err
}

// Read implements io.Reader.
func (r *artefactReader) Read(p []byte) (int, error) {
	if r.at == r.a.Size {
		if hex.EncodeToString(r.sum.Sum(nil)) != r.a.SHA256 {
			return 0, errOtherBytes
		}
		return 0, io.EOF
	}
	if r.body == nil {
		if err := r.reopen(); err != nil {
			return 0, err
		}
	}
	n, err := r.body.Read(p[:min(int64(len(p)), r.a.Size-r.at)])
	r.sum.Write(p[:n])
	r.at += int64(n)
	switch {
	case err == nil || r.at == r.a.Size:
		return n, nil
	case r.at == r.since: // another connection would not help
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return n, err
	}
	_ = r.Close()
	return n, nil
}

// Close implements io.Closer.
func (r *artefactReader) Close() (err error) {
	if r.body != nil {
		err = r.body.Close()
		r.body = nil
	}
	return err
}

// Attach gives an uploaded artefact to a job that the caller holds. One with the same name is replaced. If the lease is lost,
// IsLeaseLost(err) is true.
func (c *Client) Attach(ctx context.Context, l Lease, a NamedArtefact) error {
	return sendDone(ctx, c.caller, call{op: "attach artefact", prefix: v1.PathJobs, name: l.JobID, action: v1.ActionArtefacts, in: &v1.AttachArtefact{
		WorkerID: optional(l.Worker), Token: l.Token, Name: a.Name, ID: a.ID,
	}})
}

// PutArtefact uploads an artefact and gives it to a job that the caller holds.
func (c *Client) PutArtefact(ctx context.Context, l Lease, name string, r io.Reader) error {
	a, err := c.Upload(ctx, l.JobID, name, r)
	if err != nil {
		return err
	}
	return c.Attach(ctx, l, a)
}
