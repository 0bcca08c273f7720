package client_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/seal"
)

// fileServer is a node and its store, with the artefacts of one job.
type fileServer struct {
	*httptest.Server
	t       *testing.T
	signs   bool // it gives URLs of the store, and redirects to it
	storeOK bool // the store takes uploads

	mu       sync.Mutex
	reserved map[string]v1.NewArtefact
	bytes    map[string][]byte
	attached map[string]string // ids by name
	over     map[string]int    // uploads and downloads by way
	cut      int               // answers that break off
}

func newFileServer(t *testing.T) *fileServer {
	s := &fileServer{
		t: t, storeOK: true, reserved: make(map[string]v1.NewArtefact), bytes: make(map[string][]byte), attached: make(map[string]string), over: make(map[string]int),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"role":"leader","leader":true,"active":true,"leaderAddress":%q}`, s.Listener.Addr().String())
	})
	mux.HandleFunc("POST /v1/artefacts", s.reserve)
	mux.HandleFunc("PUT /v1/artefacts/{id}", func(w http.ResponseWriter, r *http.Request) { s.put(w, r, "node") })
	mux.HandleFunc("PUT /store/{id}", func(w http.ResponseWriter, r *http.Request) {
		if !s.storeOK || r.Header.Get("X-Signed") != "yes" || r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s.put(w, r, "store")
	})
	mux.HandleFunc("POST /v1/jobs/j/artefacts", func(w http.ResponseWriter, r *http.Request) {
		var in v1.AttachArtefact
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Token != 7 {
			t.Errorf("%+v, %v", in, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.attached[in.Name] = in.ID
		fmt.Fprint(w, `{"lsn":"1-9"}`)
	})
	mux.HandleFunc("GET /v1/jobs/j/artefacts", s.list)
	mux.HandleFunc("GET /v1/jobs/j/artefacts/{name}", s.get)
	mux.HandleFunc("GET /store/{id}", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, r.PathValue("id"), "store") })
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *fileServer) reserve(w http.ResponseWriter, r *http.Request) {
	var in v1.NewArtefact
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := v1.ArtefactReserved{ID: fmt.Sprint("a", len(s.reserved)), LSN: "1-5"}
	s.reserved[out.ID] = in
	if s.signs {
		out.URL, out.Headers = s.URL+"/store/"+out.ID, map[string]string{"X-Signed": "yes"}
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (s *fileServer) put(w http.ResponseWriter, r *http.Request, way string) {
	data, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over[way]++; s.cut > 0 {
		s.cut--
		panic(http.ErrAbortHandler)
	}
	want, sum := s.reserved[r.PathValue("id")], sha256.Sum256(data)
	if way == "node" && r.URL.Query().Get("minLsn") != "1-5" || err != nil || want.Size != int64(len(data)) || want.SHA256 != hex.EncodeToString(sum[:]) {
		s.t.Errorf("%s got %d bytes, want %+v; %v", r.URL, len(data), want, err)
	}
	s.bytes[r.PathValue("id")] = data
	w.WriteHeader(http.StatusNoContent)
}

func (s *fileServer) list(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := v1.Artefacts{LSN: "1-9"}
	for name, id := range s.attached {
		r := s.reserved[id]
		out.Artefacts = append(out.Artefacts, v1.Artefact{Name: name, Size: r.Size, SHA256: r.SHA256, Sealed: r.Sealed})
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (s *fileServer) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	id := s.attached[r.PathValue("name")]
	s.mu.Unlock()
	if r.URL.Query().Get("minLsn") != "1-9" {
		s.t.Errorf("asked for %s", r.URL)
	}
	if s.signs {
		http.Redirect(w, r, s.URL+"/store/"+id, http.StatusFound)
		return
	}
	s.serve(w, r, id, "node")
}

func (s *fileServer) serve(w http.ResponseWriter, r *http.Request, id, way string) {
	s.mu.Lock()
	data, cut := s.bytes[id], s.cut > 0
	s.over["get "+way]++
	s.cut = max(s.cut-1, 0)
	s.mu.Unlock()
	if !cut {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	_, _ = w.Write(data[:len(data)/2])
	panic(http.ErrAbortHandler)
}

func (s *fileServer) client(change func(*client.Config)) *client.Client {
	s.t.Helper()
	cfg := client.Config{Servers: []string{s.URL}, Token: "secret", RetryFor: 5 * time.Second}
	change(&cfg)
	c, err := client.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// read returns an artefact of the job.
func read(t *testing.T, c *client.Client, name string) (string, error) {
	t.Helper()
	r, err := c.OpenArtefact(t.Context(), "j", name)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(r)
	return string(data), errors.Join(err, r.Close())
}

var lease = client.Lease{JobID: "j", Worker: "w", Token: 7}

func TestArtefactsTravel(t *testing.T) {
	data := strings.Repeat("0123456789", 30_000)
	for name, c := range map[string]struct {
		signs, storeOK bool
		over           string
	}{
		"over the node":            {false, true, "map[get node:2 node:2]"},
		"over the store":           {true, true, "map[get store:2 store:2]"},
		"a store that is far away": {true, false, "map[get store:2 node:2]"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFileServer(t)
			s.signs, s.storeOK = c.signs, c.storeOK
			client := s.client(func(*client.Config) {})
			if err := client.PutArtefact(t.Context(), lease, "seeks", strings.NewReader(data)); err != nil {
				t.Fatal(err)
			}
			if err := client.PutArtefact(t.Context(), lease, "pipe", io.MultiReader(strings.NewReader(data), strings.NewReader("!"))); err != nil {
				t.Fatal(err)
			}
			first, err1 := read(t, client, "seeks")
			second, err2 := read(t, client, "pipe")
			if first != data || second != data+"!" || err1 != nil || err2 != nil {
				t.Errorf("read %d and %d bytes, %v, %v", len(first), len(second), err1, err2)
			}
			if got := fmt.Sprint(s.over); got != c.over {
				t.Errorf("the bytes went over %s, want %s", got, c.over)
			}
			if _, err := read(t, client, "none"); err == nil {
				t.Error("an artefact that does not exist was read")
			}
		})
	}
}

// Broken connections are made good, and other bytes are not taken.
func TestArtefactsOverBadConnections(t *testing.T) {
	s := newFileServer(t)
	c := s.client(func(*client.Config) {})
	data := strings.Repeat("0123456789", 30_000)
	s.cut = 2
	if err := c.PutArtefact(t.Context(), lease, "a", strings.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	s.cut = 1
	if got, err := read(t, c, "a"); got != data || err != nil {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	if got := fmt.Sprint(s.over); got != "map[get node:2 node:3]" {
		t.Errorf("the bytes went over %s", got)
	}
	s.bytes["a0"] = []byte(strings.ToUpper(data[:len(data)-1]) + "x")
	if _, err := read(t, c, "a"); err == nil {
		t.Error("other bytes were read as the artefact")
	}
	s.bytes["a0"] = []byte(data[:100])
	if _, err := read(t, c, "a"); err == nil {
		t.Error("an artefact that was cut was read")
	}
}

func TestSealedArtefacts(t *testing.T) {
	s := newFileServer(t)
	path := filepath.Join(t.TempDir(), "keys")
	if _, err := seal.Create(path, "scope"); err != nil {
		t.Fatal(err)
	}
	ring, err := seal.OpenRing(path)
	if err != nil {
		t.Fatal(err)
	}
	with, without := s.client(func(c *client.Config) { c.Cipher, c.SealedOnly = ring, true }), s.client(func(*client.Config) {})
	data := strings.Repeat("secret 123", 30_000)
	if err := with.PutArtefact(t.Context(), lease, "a", strings.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if err := without.PutArtefact(t.Context(), lease, "plain", strings.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if len(s.bytes["a0"]) <= len(data) || bytes.Contains(s.bytes["a0"], []byte("secret")) || !s.reserved["a0"].Sealed {
		t.Errorf("the store has %d bytes, %+v", len(s.bytes["a0"]), s.reserved["a0"])
	}
	if got, err := read(t, with, "a"); got != data || err != nil {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	if _, err := read(t, without, "a"); !errors.Is(err, client.ErrNoCipher) {
		t.Errorf("without keys: %v", err)
	}
	if _, err := read(t, with, "plain"); !errors.Is(err, client.ErrNotSealed) {
		t.Errorf("an artefact that is not sealed: %v", err)
	}
	s.attached["b"] = "a0" // under another name
	if _, err := read(t, with, "b"); !errors.Is(err, client.ErrTampered) {
		t.Errorf("moved to another name: %v", err)
	}
}
