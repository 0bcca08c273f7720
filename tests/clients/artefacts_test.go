package clients

import (
	"bytes"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/seal"
	"osqueue/tests/cluster"
	"osqueue/tests/cluster/store"
)

const artefactsWanted = `{
	"large": true, "result": true, "listed": [["empty", 0], ["scan.tiff", 300000], ["text.pdf", 300000]], "parts": true, "empty": 0,
	"odd": true, "none": "not_found", "lost": "stale_token", "sealed": ["sealed", true], "damaged": "damaged", "alone": [null, true]
}`

// Files go through a node whose bucket is a directory, and to and from a store whose URLs are signed, which gets no token. A
// download that breaks off continues; a store that refuses an upload is reached through a node.
func TestArtefacts(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		t.Run("node", func(t *testing.T) {
			c := l.share(t, 1)
			way := newWay(t, "http://"+c.Nodes[0].HTTP, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/artefacts/scan.tiff") })
			l.testArtefacts(t, c, way, "OSQUEUE_SERVERS="+way.URL, func(id string, data []byte) error {
				return os.WriteFile(filepath.Join(strings.TrimPrefix(c.Bucket(), "file://"), "artefact", id), data, 0o600)
			})
			way.must(t, map[string]int{"parts": 1})
		})
		t.Run("store", func(t *testing.T) {
			endpoint := store.Server(t, store.GoFakeS3)
			way := newWay(t, endpoint, func(r *http.Request) bool { return r.Method == http.MethodGet && signed(r) })
			c := cluster.Start(t, cluster.Options{Nodes: 1, Bucket: "s3://bucket?region=us-east-1&endpoint=" + way.URL})
			l.testArtefacts(t, c, way, servers(c), func(id string, data []byte) error {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, endpoint+"/bucket/artefact/"+id, bytes.NewReader(data))
				if err != nil {
					return err
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					return err
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					return errors.New(resp.Status)
				}
				return nil
			})
			way.must(t, map[string]int{"parts": 1, "signed PUT": 5, "signed GET": 4})
		})
	})
}

// testArtefacts runs the program of a language. damage replaces the bytes of an artefact.
func (l language) testArtefacts(t *testing.T, c *cluster.Cluster, way *way, nodes string, damage func(id string, data []byte) error) {
	t.Helper()
	ctx := c.Context(time.Minute)
	ring := filepath.Join(t.TempDir(), "keys")
	_, err := seal.Create(ring, "test")
	mustNot(t, err)
	keys, err := seal.OpenRing(ring)
	mustNot(t, err)
	sealing, err := client.New(client.Config{Servers: c.Servers(), Cipher: keys})
	mustNot(t, err)
	defer sealing.Close()
	for name, from := range map[string]*client.Client{"sealed": sealing, "damaged": c.Client} {
		name = c.Own(name)
		file, err := from.Upload(ctx, name, map[bool]string{true: "a", false: "secret.txt"}[from == c.Client], strings.NewReader("before"))
		mustNot(t, err)
		_, err = from.Enqueue(ctx, client.NewJob{ID: name, Type: c.Own("kept"), Artefacts: []client.NamedArtefact{file}})
		mustNot(t, err)
		if from == c.Client {
			mustNot(t, damage(file.ID, []byte("behind")))
		}
	}
	way.begin()
	out := run(t, l.desk(t), []string{nodes, "OSQUEUE_TOKEN=secret", "OWN=" + c.Own("")}, l.interpreter, "artefacts"+l.extension)
	checkFields(t, object(t, out), object(t, artefactsWanted))

	file, err := c.Client.OpenArtefact(ctx, c.Own("scan"), "text.pdf")
	mustNot(t, err)
	defer file.Close()
	if all, err := io.ReadAll(file); err != nil || len(all) != 300000 || all[299999] != 0 || all[299998] != 7 {
		t.Errorf("the client in Go reads %d bytes, %v", len(all), err)
	}
	if job, err := c.Client.Job(ctx, c.Own("scan")); err != nil || job.Status != v1.StatusCompleted {
		t.Errorf("%+v, %v", job, err)
	}
}

func mustNot(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// way is a proxy before a node or a store. It refuses the first signed upload, and cuts off the first download that cuts selects.
type way struct {
	*httputil.ReverseProxy
	URL  string
	t    *testing.T
	cuts func(*http.Request) bool

	mu     sync.Mutex
	begun  bool
	counts map[string]int
}

func signed(r *http.Request) bool { return r.URL.Query().Has("X-Amz-Signature") }

func newWay(t *testing.T, to string, cuts func(*http.Request) bool) *way {
	t.Helper()
	target, err := url.Parse(to)
	mustNot(t, err)
	w := &way{t: t, cuts: cuts, counts: map[string]int{}}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	w.ReverseProxy = &httputil.ReverseProxy{
		Transport: transport, ModifyResponse: w.cut, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is signed
		},
	}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	w.URL = server.URL
	return w
}

// begin makes it do so from here on.
func (w *way) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun, w.counts = true, map[string]int{}
}

// first counts what happens, and reports whether it happens the first time.
func (w *way) first(what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
	return w.begun && w.counts[what] == 1
}

// ServeHTTP implements http.Handler.
func (w *way) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if signed(r) {
		if r.Header.Get("Authorization") != "" {
			w.t.Error("the store got a token")
		}
		if w.first("signed "+r.Method) && r.Method == http.MethodPut {
			http.Error(rw, "not here", http.StatusForbidden)
			return
		}
	}
	if r.Header.Get("Range") != "" && w.cuts(r) {
		w.first("parts")
	}
	w.ReverseProxy.ServeHTTP(rw, r)
}

func (w *way) cut(resp *http.Response) error {
	if w.cuts(resp.Request) && w.first("cut") {
		resp.Body = &halfBody{resp.Body, resp.ContentLength / 2}
	}
	return nil
}

// must fails the test if something did not happen so often.
func (w *way) must(t *testing.T, least map[string]int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for what, n := range least {
		if w.counts[what] < n {
			t.Errorf("%d times %s, want %d: %v", w.counts[what], what, n, w.counts)
		}
	}
}

// halfBody breaks off.
type halfBody struct {
	io.ReadCloser
	left int64
}

func (b *halfBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
