package api

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth"
	"osqueue/internal/web"
)

// A request of a legacy client has the limits of its principal in every mode, at the node that
// it reaches and at the leader to which that node forwards it.
func TestLegacyRequests(t *testing.T) {
	const mail, bank = `{"type":"mail"}`, `{"type":"bank"}`
	for _, mode := range []string{core.SecurityOff, core.SecurityLog, core.SecurityOn} {
		var audited []core.AuditEntry
		g := secured(t, mode, func(e core.AuditEntry) { audited = append(audited, e) })
		g.s.Config.Legacy = &core.LegacyConfig{API: "n1:8080"}
		g.s.Legacy = auth.Legacy([]string{"mail"})
		direct := func(r *http.Request) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			r = r.WithContext(context.WithValue(r.Context(), connKey{}, &boundedConn{legacy: true}))
			outside(g.s.identified(g.s)).ServeHTTP(w, r)
			return w
		}
		// The principal is that of a node with other flags; without certificates and with the mode
		// on, only what this node gives itself counts.
		forwarded := func(r *http.Request, principal string, trusted bool) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			r.Header.Set(v1.HeaderForwarded, "n2")
			r.Header.Set("X-Forwarded-For", "10.0.0.9")
			r.Header.Set(v1.HeaderPrincipal, principal)
			if trusted {
				r = r.WithContext(context.WithValue(r.Context(), nodeKey{}, &tls.ConnectionState{}))
			}
			g.s.fromNodes().ServeHTTP(w, r)
			return w
		}
		post := func(path, body string) *http.Request {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			return r
		}
		banks := auth.Legacy([]string{"bank"}).Text()
		foreign := http.StatusForbidden // what the principal of another node may do with a type that this node does not name
		if mode != core.SecurityOn {
			foreign = http.StatusOK
		}
		for name, c := range map[string]struct {
			got  *httptest.ResponseRecorder
			want int
		}{
			"in the types":              {direct(post(v1.PathJobs, mail)), http.StatusOK},
			"of another type":           {direct(post(v1.PathJobs, bank)), http.StatusForbidden},
			"a claim without types":     {direct(post(v1.PathClaim, `{"workerId":"w"}`)), http.StatusOK},
			"another route":             {direct(post(v1.PathCancel, `{"ids":["x"]}`)), http.StatusForbidden},
			"a call of dtq":             {direct(post(v1.PathWorkers, `{"name":"w"}`)), http.StatusForbidden},
			"counts":                    {direct(httptest.NewRequest(http.MethodGet, v1.PathStats, nil)), http.StatusForbidden},
			"discovery":                 {direct(httptest.NewRequest(http.MethodGet, v1.PathStatus, nil)), http.StatusOK},
			"forwarded":                 {forwarded(post(v1.PathJobs, bank), banks, true), http.StatusOK},
			"forwarded, another type":   {forwarded(post(v1.PathJobs, mail), banks, true), http.StatusForbidden},
			"forwarded, a call of dtq":  {forwarded(post(v1.PathWorkers, `{"name":"w"}`), banks, true), http.StatusOK},
			"forwarded, another route":  {forwarded(post(v1.PathCancel, `{"ids":["x"]}`), banks, true), http.StatusForbidden},
			"forwarded by a stranger":   {forwarded(post(v1.PathJobs, bank), banks, false), foreign},
			"forwarded with bad text":   {forwarded(post(v1.PathJobs, bank), "legacy?type=%5B", true), map[string]int{core.SecurityOn: 401}[mode]},
			"forwarded as local admin?": {forwarded(post(v1.PathCancel, `{"ids":["x"]}`), "local-admin?", true), map[string]int{core.SecurityOn: 401}[mode]},
		} {
			if c.want != 0 && c.got.Code != c.want {
				t.Errorf("%s, %s: %d %s, want %d", mode, name, c.got.Code, c.got.Body, c.want)
			}
		}
		named := map[string]int{}
		for _, e := range audited {
			if e.Principal == "legacy" {
				named[e.Address]++
			}
		}
		if named["192.0.2.1:1234"] < 4 || named["10.0.0.9"] < 3 {
			t.Errorf("%s: the audit log has the principal %v times", mode, named)
		}
	}
}

func TestNetworksOfLegacyClients(t *testing.T) {
	l := &core.LegacyConfig{Networks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fe80::/10")}}
	for address, want := range map[string]bool{
		"10.1.2.3": true, "10.2.0.1": false, "::ffff:10.1.2.3": true, "fe80::1%eth0": true, "::1": false, "": false, "x": false,
	} {
		if l.Accepts(address) != want {
			t.Errorf("%q: %v", address, !want)
		}
	}
}

// largeJob is larger than Config.MaxBody is by default.
func largeJob() string { return `{"payload":"` + strings.Repeat("a", core.DefaultBodyBytes) + `"}` }

func postJob(t *testing.T, h http.Handler, header http.Header) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, v1.PathJobs, strings.NewReader(largeJob()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestLimitOfBodiesIsForThoseFromOutside(t *testing.T) {
	var native http.Handler
	var calls core.Calls
	s := New(core.Config{Backend: newFake(), Wrap: func(n http.Handler, c core.Calls) http.Handler {
		native, calls = n, c
		return n
	}})
	defer s.Shutdown(context.Background())
	if got := postJob(t, native, http.Header{}); got != http.StatusRequestEntityTooLarge {
		t.Errorf("from outside: %d", got)
	}
	if got := postJob(t, native, http.Header{v1.HeaderForwarded: {"n2"}}); got != http.StatusOK {
		t.Errorf("from another node: %d", got)
	}
	call := func(method, target, body string) *web.Answer {
		a := web.NewAnswer(make(http.Header))
		if !calls.Pass(t.Context(), method, target, "192.0.2.1:5", []byte(body), a) {
			t.Errorf("%s %s broke off", method, target)
		}
		return a
	}
	if a := call(http.MethodPost, v1.PathJobs, largeJob()); a.Status != http.StatusOK || a.Header().Get(v1.HeaderLSN) == "" {
		t.Errorf("within the process: %d %v", a.Status, a.Header())
	}
	if a := call(http.MethodGet, v1.PathJobs, ""); a.Status != http.StatusOK || a.Body.Len() < core.DefaultBodyBytes {
		t.Errorf("a list in parts: %d, %d bytes", a.Status, a.Body.Len())
	}
	var out v1.Enqueued
	job := &v1.NewJob{ID: "typed", Type: "typed", Payload: []byte(` {"n" : 1}`)}
	if p := calls.Call(t.Context(), http.MethodPost, v1.PathJobs, "192.0.2.1:5", job, &out); p != nil || out.JobID != "typed" || out.LSN == "" {
		t.Errorf("a job as a struct: %+v, %+v", p, out)
	}
	var got v1.ClaimedJob
	job.Payload[2] = 'x' // the caller may use its memory again
	if p := calls.Call(t.Context(), http.MethodPost, v1.PathClaim, "192.0.2.1:5", &v1.Claim{WorkerID: new("w"), Types: []string{"typed"}}, &got); p != nil || string(got.Payload) != ` {"n" : 1}` {
		t.Errorf("a claim as a struct: %+v, %+v", p, got)
	}
	var list v1.JobList
	if p := calls.Call(t.Context(), http.MethodGet, v1.PathJobs+"?limit=2", "192.0.2.1:5", nil, &list); p != nil || len(list.Jobs) == 0 {
		t.Errorf("a list as a struct: %+v, %d jobs", p, len(list.Jobs))
	}
	for in, want := range map[v1.Message]string{
		&v1.NewJob{Payload: []byte("{")}: "payload is not valid JSON", &v1.NewJob{LeaseMs: -1}: "leaseMs", &v1.NewJob{ID: "more"}: "",
	} {
		p := calls.Call(t.Context(), http.MethodPost, v1.PathJobs, "192.0.2.1:5", in, nil)
		if (p != nil) != (want != "") || p != nil && (p.Status != http.StatusBadRequest || p.Tag != v1.TagBadRequest || !strings.Contains(p.Detail, want)) {
			t.Errorf("%+v: %+v, want %q", in, p, want)
		}
	}
	for _, target := range []string{"/nope", "x y", "/v1/jobs/none"} {
		if p := calls.Call(t.Context(), http.MethodGet, target, "192.0.2.1:5", nil, &list); p == nil || p.Status < 400 || p.Tag == "" {
			t.Errorf("%s: %+v", target, p)
		}
		if a := call(http.MethodGet, target, ""); a.Status < 400 || a.Header().Get("Content-Type") != v1.MediaTypeProblem || a.Body.Len() == 0 {
			t.Errorf("%s: %d %v", target, a.Status, a.Header())
		}
	}
}

// Both versions of HTTP reach the handler that Wrap makes.
func TestServesBothVersionsOfHTTP(t *testing.T) {
	t.Parallel()
	s := New(core.Config{Backend: newFake(), Wrap: func(native http.Handler, _ core.Calls) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Wrapped", r.Proto)
			native.ServeHTTP(w, r)
		})
	}})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	for want, set := range map[string]func(*http.Protocols, bool){
		"HTTP/1.1": (*http.Protocols).SetHTTP1, "HTTP/2.0": (*http.Protocols).SetUnencryptedHTTP2,
	} {
		p := new(http.Protocols)
		set(p, true)
		tr := &http.Transport{Protocols: p}
		resp, err := (&http.Client{Transport: tr}).Get("http://" + ln.Addr().String() + v1.PathHealthz)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.Proto != want || resp.Header.Get("Wrapped") != want {
			t.Errorf("%s: %s, %s, wrapped %q", want, resp.Status, resp.Proto, resp.Header.Get("Wrapped"))
		}
		defer tr.CloseIdleConnections()
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
