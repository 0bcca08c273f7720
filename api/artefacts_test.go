package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/limit"
	"osqueue/storage"
)

// objectsOf is a bucket that cannot sign.
func objectsOf(b storage.Bucket) core.Objects {
	return storage.Decorate(b, func(ctx context.Context, _ storage.Call, next func(context.Context) storage.Answer) storage.Answer {
		return next(ctx)
	})
}

// signing is a bucket that can sign, or that fails.
type signing struct {
	core.Objects
	err error
}

func (s *signing) SignPut(_ context.Context, key string, c storage.Content, valid time.Duration) (storage.Signed, error) {
	q := url.Values{"size": {fmt.Sprint(c.Size)}, "for": {valid.String()}}
	return storage.Signed{Method: "PUT", URL: "https://store.example/" + key + "?" + q.Encode(), Header: http.Header{"If-None-Match": {"*"}}}, s.err
}

func (s *signing) SignGet(_ context.Context, key string, _ time.Duration) (storage.Signed, error) {
	return storage.Signed{Method: "GET", URL: "https://store.example/" + key}, s.err
}

func (s *signing) Stat(ctx context.Context, key string) (storage.Stat, error) {
	if s.err != nil {
		return storage.Stat{}, s.err
	}
	return s.Objects.Stat(ctx, key)
}

func sumOf(data string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(data))) }

// reserve reserves an artefact for data.
func (g *rig) reserve(data string, header ...string) v1.ArtefactReserved {
	g.t.Helper()
	return ok[v1.ArtefactReserved](g.t, g.do("POST", "/v1/artefacts", fmt.Sprintf(`{"size":%d,"sha256":"%s"}`, len(data), sumOf(data)), header...))
}

// upload sends the bytes of an artefact, and wants a status.
func (g *rig) upload(id, data string, status int, header ...string) answer {
	g.t.Helper()
	a := g.do("PUT", "/v1/artefacts/"+id, data, append([]string{"Content-Type", "application/octet-stream"}, header...)...)
	if a.status != status {
		g.t.Fatalf("answered %d %s, want %d", a.status, a.body, status)
	}
	return a
}

// uploaded reserves and uploads an artefact.
func (g *rig) uploaded(data string, header ...string) (id string) {
	g.t.Helper()
	id = g.reserve(data, header...).ID
	g.upload(id, data, http.StatusNoContent, header...)
	return id
}

// addArtefact makes a reserved artefact with an id whose bytes the bucket has.
func (g *rig) addArtefact(id, data string) {
	g.t.Helper()
	sum := sha256.Sum256([]byte(data))
	g.put(&fsmpb.Mutation{Op: &fsmpb.Mutation_ReserveArtefact{ReserveArtefact: &fsmpb.ReserveArtefact{
		Id: id, Size: int64(len(data)), Sum: sum[:], UntilMs: startMs + 3_600_000,
	}}})
	if w := g.bucket.PutIfAbsent(context.Background(), "artefact/"+id, []byte(data)); w.Outcome == storage.Unknown {
		g.t.Fatal(w)
	}
}

// objects returns the bytes of all artefacts in the bucket.
func (g *rig) objects() (out []string) {
	g.t.Helper()
	err := g.bucket.List(context.Background(), "artefact/", func(i storage.Info) bool {
		o, err := g.bucket.Get(context.Background(), i.Key)
		if err != nil {
			g.t.Error(err)
		}
		out = append(out, string(o.Data))
		return true
	})
	if err != nil {
		g.t.Fatal(err)
	}
	return out
}

func TestArtefacts(t *testing.T) {
	g := newRig(t)
	r := g.reserve("hello")
	if r.URL != "" || r.Headers != nil || r.Until != startMs+24*3_600_000 || r.LSN == "" {
		t.Errorf("reserved %+v", r)
	}
	early := refused(t, g.do("POST", "/v1/jobs", `{"id":"a","artefacts":[{"name":"payload","id":"`+r.ID+`"}]}`), 409, v1.TagNoSuchArtefact)
	if !strings.Contains(early.Detail, "upload") {
		t.Error(early.Detail)
	}
	g.upload(r.ID, "hello", http.StatusNoContent)
	g.upload(r.ID, "hello", http.StatusNoContent) // the answer was lost
	other := g.uploaded("world")
	body := fmt.Sprintf(`{"id":"a","type":"t","artefacts":[{"name":"two","id":%q},{"name":"one","id":%q}]}`, other, r.ID)
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", body))
	if again := ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", body)); !again.Duplicate {
		t.Errorf("again: %+v", again)
	}
	want := []v1.Artefact{{Name: "one", Size: 5, SHA256: sumOf("hello")}, {Name: "two", Size: 5, SHA256: sumOf("world")}}
	list := ok[v1.Artefacts](t, g.do("GET", "/v1/jobs/a/artefacts", ""))
	job := ok[v1.Job](t, g.do("GET", "/v1/jobs/a", ""))
	for _, got := range [][]v1.Artefact{list.Artefacts, job.Artefacts} {
		if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("the job has %+v, want %+v", got, want)
		}
	}
	for _, p := range []string{"/v1/jobs/batch", "/v1/batches"} { // of a list the index is named
		f := refused(t, g.do("POST", p, fmt.Sprintf(`{"jobs":[{"type":"t"},{"type":"t","artefacts":[{"name":"x","id":%q}]}]}`, r.ID)), 409, v1.TagNoSuchArtefact)
		if f.Index == nil || *f.Index != 1 {
			t.Errorf("%s: %+v", p, f)
		}
	}
	ok[v1.Reported](t, g.do("DELETE", "/v1/jobs/a", ""))
	refused(t, g.do("GET", "/v1/jobs/a/artefacts/one", ""), 404, v1.TagNotFound)
	refused(t, g.do("PUT", "/v1/artefacts/"+r.ID, "hello"), 404, v1.TagNotFound)
}

func TestReadingArtefacts(t *testing.T) {
	g := newRig(t)
	data := strings.Repeat("0123456789", 10_000)
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", fmt.Sprintf(`{"id":"a","artefacts":[{"name":"ä b.txt","id":%q}]}`, g.uploaded(data))))
	const path = "/v1/jobs/a/artefacts/%C3%A4%20b.txt"
	a := g.do("GET", path, "")
	if a.status != 200 || string(a.body) != data || a.header.Get("Content-Type") != "application/octet-stream" || a.header.Get("Content-Disposition") != "attachment" {
		t.Errorf("answered %d %v, %d bytes", a.status, a.header, len(a.body))
	}
	if a := g.do("HEAD", path, ""); a.status != 200 || len(a.body) != 0 || a.header.Get("Content-Length") != "100000" {
		t.Errorf("HEAD: %d %v", a.status, a.header)
	}
	for header, want := range map[string]string{"bytes=5-9": data[5:10], "bytes=99990-": data[99990:], "bytes=-3": data[len(data)-3:]} {
		if a := g.do("GET", path, "", "Range", header); a.status != 206 || string(a.body) != want {
			t.Errorf("%s: %d, %d bytes", header, a.status, len(a.body))
		}
	}
	if a := g.do("GET", path, "", "Range", "bytes=100000-"); a.status != 416 {
		t.Errorf("behind the end: %d", a.status)
	}
	if err := g.bucket.List(t.Context(), "artefact/", func(i storage.Info) bool { return g.bucket.Delete(t.Context(), i.Key) == nil }); err != nil {
		t.Fatal(err)
	}
	if f := refused(t, g.do("GET", path, ""), 502, v1.TagBucket); !strings.Contains(f.Detail, "verify") {
		t.Error(f.Detail)
	}
	refused(t, g.do("GET", "/v1/jobs/a/artefacts/nope", ""), 404, v1.TagNotFound)
	refused(t, g.do("GET", "/v1/jobs/nope/artefacts/x", ""), 404, v1.TagNotFound)
	refused(t, g.do("GET", "/v1/jobs/nope/artefacts", ""), 404, v1.TagNotFound)
}

func TestSignedArtefacts(t *testing.T) {
	store := &signing{}
	g := newRig(t, func(c *core.Config) {
		store.Objects = c.Objects
		c.Objects = store
	})
	r := g.reserve("hello")
	if want := "https://store.example/artefact/" + r.ID + "?for=1h0m0s&size=5"; r.URL != want || r.Headers["If-None-Match"] != "*" {
		t.Errorf("reserved %+v, want the URL %s", r, want)
	}
	g.upload(r.ID, "hello", http.StatusNoContent) // a client that cannot reach the store
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", fmt.Sprintf(`{"id":"a","artefacts":[{"name":"x","id":%q}]}`, r.ID)))
	if a := g.do("GET", "/v1/jobs/a/artefacts/x", ""); a.status != 302 || a.header.Get("Location") != "https://store.example/artefact/"+r.ID {
		t.Errorf("answered %d %v", a.status, a.header)
	}
	store.err = errors.New("no answer")
	id := g.reserve("world").ID
	refused(t, g.do("PUT", "/v1/artefacts/"+id, "world"), 502, v1.TagBucket)
	refused(t, g.do("POST", "/v1/jobs", fmt.Sprintf(`{"artefacts":[{"name":"x","id":%q}]}`, id)), 502, v1.TagBucket)
	refused(t, g.do("GET", "/v1/jobs/a/artefacts/x", ""), 502, v1.TagBucket)
}

func TestWorkersGiveArtefacts(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	j := g.claim1()
	attach := func(name, id string, token uint64) answer {
		return g.do("POST", "/v1/jobs/a/artefacts", fmt.Sprintf(`{"workerId":"w","token":%d,"name":%q,"id":%q}`, token, name, id))
	}
	first, second := g.uploaded("first"), g.uploaded("second")
	ok[v1.Done](t, attach("out", first, j.Token))
	ok[v1.Done](t, attach("out", first, j.Token))
	refused(t, attach("out", second, j.Token+1), 409, v1.TagStaleToken)
	refused(t, attach("out", g.reserve("third").ID, j.Token), 409, v1.TagNoSuchArtefact)
	ok[v1.Done](t, attach("out", second, j.Token))
	if a := g.do("GET", "/v1/jobs/a/artefacts/out", ""); string(a.body) != "second" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// An upload with other bytes than were reserved leaves nothing in the bucket.
func TestWrongUploads(t *testing.T) {
	g := newRig(t)
	id := g.reserve("hello").ID
	for what, data := range map[string]string{"another sum": "hallo", "too short": "hell", "too long": "hello!"} {
		p := refused(t, g.do("PUT", "/v1/artefacts/"+id, data), 400, v1.TagBadRequest)
		if got := g.objects(); len(got) != 0 {
			t.Errorf("%s: %s, and the bucket has %q", what, p.Detail, got)
		}
	}
	refused(t, g.do("PUT", "/v1/artefacts/nope", "hello"), 404, v1.TagNotFound)
	g.node.set(func(f *fakeNode) { f.now += 24 * 3_600_000 })
	g.apply() // time passes
	refused(t, g.do("PUT", "/v1/artefacts/"+id, "hello"), 404, v1.TagNotFound)
}

// An upload that breaks off, or whose client falls silent, leaves nothing; the next one succeeds.
func TestCutUploads(t *testing.T) {
	g := newRig(t, func(c *core.Config) { c.Timeouts.Body = 100 * time.Millisecond })
	address, _ := g.listen(t)
	data := strings.Repeat("x", 1<<20)
	id := g.reserve(data).ID
	for _, cut := range []bool{true, false} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "PUT /v1/artefacts/%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", id, len(data), data[:len(data)/2])
		if cut {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
		answered, err := io.ReadAll(conn)
		if err != nil || !bytes.HasPrefix(answered, []byte("HTTP/1.1 4")) {
			t.Errorf("cut %v: %s, %v", cut, answered, err)
		}
		_ = conn.Close()
		if got := g.objects(); len(got) != 0 {
			t.Errorf("cut %v: the bucket has %d objects", cut, len(got))
		}
	}
	g.upload(id, data, http.StatusNoContent)
	if got := g.objects(); len(got) != 1 || got[0] != data {
		t.Error("the bucket does not have the bytes")
	}
}

// The limit of bodies, and the time for one, do not hold for an upload, as long as bytes come.
func TestLargeAndSlowUploads(t *testing.T) {
	const body = 300 * time.Millisecond
	g := newRig(t, func(c *core.Config) { c.MaxBody, c.Timeouts.Body = 1000, body })
	address, _ := g.listen(t)
	data := strings.Repeat("x", 100_000)
	id := g.reserve(data).ID
	slow, feed := io.Pipe()
	go func() {
		for i := 0; i < len(data); i += 10_000 {
			time.Sleep(body / 5) // twice the time for a body together
			_, _ = feed.Write([]byte(data[i : i+10_000]))
		}
		_ = feed.Close()
	}()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+address+"/v1/artefacts/"+id, slow)
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = int64(len(data))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent || len(g.objects()) != 1 {
		t.Errorf("answered %s", resp.Status)
	}
}

// An artefact exists for its own tenant only, until a job has it.
func TestArtefactsOfTenants(t *testing.T) {
	g := secured(t, core.SecurityOn, nil)
	of := func(types string) []string {
		return g.give(&fsmpb.Token{Role: uint32(fsm.RoleProducer), Types: []string{types}, MaxBytes: 1 << 20})
	}
	mine, other := of("mail"), of("bank")
	id := g.uploaded("secret", mine...)
	refused(t, g.do("PUT", "/v1/artefacts/"+id, "secret", other...), 404, v1.TagNotFound)
	refused(t, g.do("POST", "/v1/jobs", fmt.Sprintf(`{"type":"bank","artefacts":[{"name":"x","id":%q}]}`, id), other...), 409, v1.TagNoSuchArtefact)
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", fmt.Sprintf(`{"id":"a","type":"mail","artefacts":[{"name":"x","id":%q}]}`, id), mine...))
	if a := g.do("GET", "/v1/jobs/a/artefacts/x", "", mine...); string(a.body) != "secret" {
		t.Errorf("%d %s", a.status, a.body)
	}
	refused(t, g.do("GET", "/v1/jobs/a/artefacts/x", "", other...), 404, v1.TagNotFound)
	refused(t, g.do("GET", "/v1/jobs/a/artefacts", "", other...), 404, v1.TagNotFound)
	refused(t, g.do("POST", "/v1/artefacts", fmt.Sprintf(`{"size":%d,"sha256":"%s"}`, 1<<20, sumOf("")), mine...), 429, v1.TagTooManyTokenBytes)
}

// provokeArtefact tries to get an answer about artefacts that no other operation gives.
func (s *sample) provokeArtefact(t *testing.T, status string) []answer {
	t.Helper()
	id := s.op["operationId"]
	enqueues := map[string]string{"enqueue": `{%s}`, "enqueueBatch": `{"jobs":[{%s}]}`, "createBatch": `{"jobs":[{%s}]}`}
	body, enqueuing := enqueues[id.(string)]
	if status != "502" {
		enqueuing = false
	}
	if !enqueuing && id != "reserveArtefact" && id != "uploadArtefact" && id != "readArtefact" && id != "attachArtefact" {
		return nil
	}
	store := &signing{}
	g := newExampleRig(t, func(c *core.Config) {
		if status == "302" || status == "502" {
			store.Objects = c.Objects
			c.Objects = store
		}
	})
	switch status {
	case "206":
		return []answer{s.try(g, "Range", "bytes=0-1")}
	case "416":
		return []answer{s.try(g, "Range", "bytes=99-")}
	case "302":
		return []answer{s.try(g)}
	case "429":
		g.s.Access.Mode = core.SecurityOn
		return []answer{s.try(g, g.give(&fsmpb.Token{Role: uint32(fsm.RoleProducer), MaxBytes: 1})...)}
	case "502":
		if store.err = errors.New("away"); id == "reserveArtefact" {
			g.s.Config.Objects = nil
		}
		if enqueuing {
			with := *s
			with.body = fmt.Sprintf(body, `"artefacts":[{"name":"x","id":"art-0"}]`)
			return []answer{with.try(g)}
		}
		return []answer{s.try(g)}
	case "503":
		g.s.Shares.Streams = limit.NewSlots(0, 0)
		return []answer{s.try(g)}
	}
	return nil
}
