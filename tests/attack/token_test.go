package attack

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
	"osqueue/internal/auth"
	"osqueue/tests/cluster"
)

// secured is a cluster that asks for tokens.
type secured struct {
	*target
	node *cluster.Node
}

func newSecured(t *testing.T, nodes int) *secured {
	t.Helper()
	return newSecuredWith(t, cluster.Options{Nodes: nodes})
}

func newSecuredWith(t *testing.T, o cluster.Options) *secured {
	t.Helper()
	o.Flags = append(calmed(o.Nodes, o.Flags), "--security", "on")
	return secure(t, cluster.Start(t, o))
}

// shareSecured returns a view of the one node with --security on that tests share.
func shareSecured(t *testing.T) *secured {
	t.Helper()
	return secure(t, cluster.Share(t, cluster.Options{Nodes: 1, Flags: []string{"--security", "on"}}))
}

func secure(t *testing.T, c *cluster.Cluster) *secured {
	t.Helper()
	g := &target{Cluster: c, t: t, before: make(map[*cluster.Node]int64), terms: make(map[*cluster.Node]uint64)}
	s := &secured{target: g, node: c.WaitLeader()}
	g.Eventually(patience, "the admin socket", func() error {
		a, err := s.local("GET", v1.PathTokens, "")
		if err == nil && a.StatusCode != http.StatusOK {
			err = fmt.Errorf("answered %d %s", a.StatusCode, a.Body)
		}
		return err
	})
	g.token = s.give(`{"role":"admin","name":"bystander"}`).Token
	for _, n := range c.Nodes {
		g.before[n], g.terms[n] = resident(t, n, "VmRSS"), g.status(n).Term
	}
	g.bystand()
	return s
}

// local sends a request to the admin socket of the leader.
func (s *secured) local(method, path, body string) (*answer, error) {
	conn, err := net.DialTimeout("unix", filepath.Join(s.node.Dir, "data", "admin.sock"), answerMax)
	if err != nil {
		return nil, err
	}
	return exchange(conn, requestText(method, path, "localhost", "", body), answerMax)
}

// give makes a token.
func (s *secured) give(body string) v1.TokenCreated {
	s.t.Helper()
	a, err := s.local("POST", v1.PathTokens, body)
	if err != nil || a.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %v %v", body, a, err)
	}
	var made v1.TokenCreated
	if err := json.Unmarshal([]byte(a.Body), &made); err != nil {
		s.t.Fatal(err)
	}
	return made
}

func requestText(method, path, host, headers, body string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%sContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		method, path, host, headers, len(body), body)
}

func bearer(text string) string { return "Authorization: Bearer " + text + "\r\n" }

// try sends a request with headers to a node.
func try(t *testing.T, n *cluster.Node, method, path, headers, body string) *answer {
	t.Helper()
	a, err := request(n.HTTP, requestText(method, path, n.HTTP, headers, body), answerMax)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

const mailJob = `{"type":"mail"}`

// Clients without a valid token open no WebSocket, and are refused before the node reads their bodies, also
// on the routes of other contracts.
func TestStrangersTakeNoMemory(t *testing.T) {
	t.Parallel()
	s := shareSecured(t)
	n := s.node
	const handshake = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	revoked := s.give(`{"role":"worker"}`)
	if a, err := s.local("DELETE", v1.PathTokens+"/"+revoked.ID, ""); err != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("revoke: %v %v", a, err)
	}
	for name, credential := range map[string]string{"none": "", "another cluster's": bearer(auth.New().Text), "a revoked one": bearer(revoked.Token)} {
		for _, path := range []string{
			v1.PathJobs, v1.PathClaim, v1.PathJobs + "/x/heartbeat", v1.PathJobs + "/x/complete", "/osqueue.v1.QueueService/SubmitJob",
			"/osqueue.v1.QueueService/ListJobs", "/submit_task", "/get_pending_task", "/complete_task", "/register_worker", "/heartbeat", "/raft_message",
		} {
			s.attack(name+" "+path, func(t *testing.T) {
				// The announced body never arrives.
				a, err := request(n.HTTP, "POST "+path+" HTTP/1.1\r\nHost: "+n.HTTP+"\r\n"+credential+
					"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{", answerMax)
				if err != nil || a.StatusCode != http.StatusUnauthorized {
					t.Errorf("%v %v", a, err)
				}
			})
		}
		s.attack(name+" WebSocket", func(t *testing.T) {
			a, err := request(n.HTTP, "GET /v1/ws HTTP/1.1\r\nHost: "+n.HTTP+"\r\n"+credential+handshake+"\r\n", answerMax)
			if err != nil || a.StatusCode != http.StatusUnauthorized {
				t.Errorf("%v %v", a, err)
			}
		})
	}
	good := s.give(`{"role":"worker"}`)
	if a, err := request(n.HTTP, "GET /v1/ws HTTP/1.1\r\nHost: "+n.HTTP+"\r\n"+bearer(good.Token)+handshake+"\r\n", answerMax); a == nil || a.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("a worker opens no WebSocket: %v %v", a, err)
	}
	s.settled()
}

// Credentials that are none are answered 401, whatever they look like.
func TestForgedTokens(t *testing.T) {
	t.Parallel()
	s := shareSecured(t)
	good := s.give(`{"role":"admin"}`)
	parts := strings.Split(good.Token, "_")
	stranger := auth.New()
	foreign := strings.Split(stranger.Text, "_")
	expired := s.give(`{"role":"admin","ttlMs":2000}`).Token // less time could be over before it is made
	revoked := s.give(`{"role":"admin"}`)
	if a := try(t, s.node, "DELETE", v1.PathTokens+"/"+revoked.ID, bearer(good.Token), ""); a.StatusCode != http.StatusOK {
		t.Fatalf("revoke: %d %s", a.StatusCode, a.Body)
	}
	jwt := func(header string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"root","role":"admin"}`)) + "."
	}
	rows := map[string]string{
		"none":                          "",
		"another cluster's":             bearer(stranger.Text),
		"an expired one":                bearer(expired),
		"a revoked one":                 bearer(revoked.Token),
		"a wrong checksum":              bearer(good.Token[:len(good.Token)-1] + "g"),
		"no checksum":                   bearer(strings.Join(parts[:3], "_")),
		"a checksum of zero":            bearer(strings.Join(parts[:3], "_") + "_00000000"),
		"another secret":                bearer(strings.Join([]string{parts[0], parts[1], foreign[2], parts[3]}, "_")),
		"another id":                    bearer(strings.Join([]string{parts[0], foreign[1], parts[2], parts[3]}, "_")),
		"only the id":                   bearer(good.ID),
		"upper case":                    bearer(strings.ToUpper(good.Token)),
		"half":                          bearer(good.Token[:30]),
		"twice":                         bearer(good.Token + good.Token),
		"a path":                        bearer("../../" + good.Token),
		"spaces inside":                 bearer(parts[0] + " _" + strings.Join(parts[1:], "_")),
		"a huge one":                    bearer(strings.Repeat("a", 50<<10)),
		"a list":                        bearer("[" + good.Token + "]"),
		"a pattern":                     bearer("osq_*_*_*"),
		"the hash":                      bearer("osq_" + parts[1] + "_" + stranger.Hash[:0] + "_x"),
		"JWT with alg none":             bearer(jwt(`{"alg":"none"}`)),
		"JWT with HS256":                bearer(jwt(`{"alg":"HS256"}`)),
		"basic":                         "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("admin:"+good.Token)) + "\r\n",
		"digest":                        "Authorization: Digest username=\"admin\"\r\n",
		"without a scheme":              "Authorization: " + good.Token + "\r\n",
		"an empty header":               "Authorization:\r\n",
		"the second of two headers":     "Authorization: Bearer x\r\n" + bearer(good.Token),
		"in a cookie":                   "Cookie: token=" + good.Token + "\r\n",
		"in a header of another name":   "X-Api-Key: " + good.Token + "\r\n",
		"a proxy's header":              "Proxy-Authorization: Bearer " + good.Token + "\r\n",
		"a header of nodes":             "Osqueue-Forwarded: n1\r\nX-Forwarded-For: 127.0.0.1\r\n",
		"a certificate in a header":     "Osqueue-Forwarded: n1\r\nOsqueue-Client-Certificate: " + base64.RawURLEncoding.EncodeToString([]byte(`{"name":"admin","cn":"admin"}`)) + "\r\n",
		"a principal in a header":       "X-Remote-User: admin\r\nX-Forwarded-User: admin\r\n",
		"the name of the local admin":   bearer("local-admin"),
		"a certificate's name as token": bearer("cert:admin"),
	}
	s.Eventually(patience, "the token to expire", func() error {
		if a := try(t, s.node, "GET", v1.PathJobs, bearer(expired), ""); a.StatusCode != http.StatusUnauthorized {
			return fmt.Errorf("%d %s", a.StatusCode, a.Body)
		}
		return nil
	})
	for name, headers := range rows {
		s.attack(name, func(t *testing.T) {
			for _, r := range [][3]string{
				{"POST", v1.PathJobs, mailJob},
				{"GET", v1.PathJobs, ""},
				{"POST", v1.PathClaim, `{"workerId":"w"}`},
				{"GET", v1.PathTokens, ""},
				{"POST", v1.PathTokens, `{"role":"admin"}`},
				{"GET", v1.PathState, ""},
			} {
				if a := try(t, s.node, r[0], r[1], headers, r[2]); a.StatusCode != http.StatusUnauthorized {
					t.Errorf("%s %s is answered %d %s", r[0], r[1], a.StatusCode, a.Body)
				} else if strings.Contains(a.Body, parts[2]) || strings.Contains(a.Body, foreign[2]) {
					t.Errorf("the answer has a secret: %s", a.Body)
				}
			}
		})
	}
	s.attack("a token in the query", func(t *testing.T) {
		for _, name := range []string{"token", "access_token", "authorization", "auth"} {
			if a := try(t, s.node, "GET", v1.PathJobs+"?"+name+"="+good.Token, "", ""); a.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s: answered %d", name, a.StatusCode)
			}
		}
	})
	s.settled()
}

// Tokens do only what their role and their scope allow: nothing is done, and 403 says why.
func TestTokensBeyondTheirScope(t *testing.T) {
	t.Parallel()
	s := shareSecured(t)
	admin := bearer(s.token)
	give := func(body string) string { return bearer(s.give(body).Token) }
	producer, worker := give(`{"role":"producer","types":["mail","film.*"],"maxPayload":10}`), give(`{"role":"worker","types":["mail"]}`)
	reader, operator := give(`{"role":"reader","types":["mail"]}`), give(`{"role":"operator","types":["mail"],"groups":["a"]}`)
	free := give(`{"role":"producer"}`)
	ids := []string{s.Own("secret-1"), s.Own("secret-2")}
	for _, id := range ids {
		if a := try(t, s.node, "POST", v1.PathJobs, admin, `{"id":"`+id+`","type":"secret"}`); a.StatusCode != http.StatusOK {
			t.Fatal(a.Body)
		}
	}
	if a := try(t, s.node, "PUT", v1.PathCrons+"/"+s.Own("secret-3"), admin, `{"spec":"@yearly","job":{"type":"secret"}}`); a.StatusCode != http.StatusOK {
		t.Fatal(a.Body)
	}
	job := func(more string) string { return `{"type":"mail"` + more + `}` }
	rows := []struct{ name, token, method, path, body string }{
		{"a producer claims", producer, "POST", v1.PathClaim, `{"workerId":"w","types":["mail"]}`},
		{"a producer reads all", producer, "GET", v1.PathJobs, ""},
		{"a producer makes a token", producer, "POST", v1.PathTokens, `{"role":"admin"}`},
		{"a producer enqueues another type", producer, "POST", v1.PathJobs, `{"type":"secret"}`},
		{"a producer enqueues no type", producer, "POST", v1.PathJobs, `{}`},
		{"a pattern as type", producer, "POST", v1.PathJobs, `{"type":"*"}`},
		{"a type with a slash", producer, "POST", v1.PathJobs, `{"type":"film.a/b"}`},
		{"one job of a batch", producer, "POST", v1.PathJobsBatch, `{"jobs":[{"type":"mail"},{"type":"secret"}]}`},
		{"the callback of a batch", producer, "POST", v1.PathBatches, `{"jobs":[{"type":"mail"}],"callback":{"type":"secret"}}`},
		{"a large payload", producer, "POST", v1.PathJobs, job(`,"payload":"0123456789"`)},
		{"a producer reads a job of others", producer, "GET", v1.PathJobs + "/secret-1", ""},
		{"a producer reads the state", producer, "GET", v1.PathState, ""},
		{"a producer reads metrics", producer, "GET", v1.PathMetrics, ""},
		{"a program", free, "POST", v1.PathJobs, `{"type":"command","payload":{"argv":["id"]}}`},
		{"a program in a batch", free, "POST", v1.PathJobsBatch, `{"jobs":[{"type":"x"},{"type":"python"}]}`},
		{"a program as callback", free, "POST", v1.PathBatches, `{"jobs":[{"type":"x"}],"callback":{"type":"command"}}`},
		{"a worker enqueues", worker, "POST", v1.PathJobs, mailJob},
		{"a worker claims another type", worker, "POST", v1.PathClaim, `{"workerId":"w","types":["secret"]}`},
		{"a worker claims two types", worker, "POST", v1.PathClaim, `{"workerId":"w","types":["mail","secret"]}`},
		{"a worker claims all", worker, "POST", v1.PathClaim, `{"workerId":"w"}`},
		{"a worker claims a pattern", worker, "POST", v1.PathClaim, `{"workerId":"w","types":["*"]}`},
		{"a worker forces", worker, "POST", v1.PathJobs + "/secret-1/" + v1.ActionForceComplete, `{}`},
		{"a worker deletes", worker, "DELETE", v1.PathJobs + "/secret-1", ""},
		{"a worker removes a worker", worker, "DELETE", v1.PathWorkers + "/w", ""},
		{"a worker lists", worker, "GET", v1.PathJobs + "?type=mail", ""},
		{"a worker reads the events", worker, "GET", v1.PathEvents, ""},
		{"a reader lists all", reader, "GET", v1.PathJobs, ""},
		{"a reader lists another type", reader, "GET", v1.PathJobs + "?type=secret", ""},
		{"a reader lists a list", reader, "GET", v1.PathJobs + "?type=mail,secret", ""},
		{"a reader lists an empty type", reader, "GET", v1.PathJobs + "?type=", ""},
		{"a reader reads a job", reader, "GET", v1.PathJobs + "/secret-1", ""},
		{"a reader reads a type", reader, "GET", v1.PathQueues + "/secret", ""},
		{"a reader reads all types", reader, "GET", v1.PathQueues, ""},
		{"a reader follows all events", reader, "GET", v1.PathEvents, ""},
		{"a reader enqueues", reader, "POST", v1.PathJobs, mailJob},
		{"a reader cancels", reader, "POST", v1.PathJobs + "/secret-1/cancel", ""},
		{"a reader pauses", reader, "POST", v1.PathQueues + "/mail/pause", ""},
		{"a reader reads the tokens", reader, "GET", v1.PathTokens, ""},
		{"an operator deletes all", operator, "POST", v1.PathDelete, `{"filter":{"all":true}}`},
		{"an operator deletes another type", operator, "POST", v1.PathDelete, `{"filter":{"type":"secret","group":"a"}}`},
		{"an operator deletes another group", operator, "POST", v1.PathDelete, `{"filter":{"type":"mail","group":"b"}}`},
		{"an operator deletes by ids", operator, "POST", v1.PathDelete, `{"ids":["secret-1","secret-2"]}`},
		{"an operator cancels a job", operator, "POST", v1.PathJobs + "/secret-1/cancel", ""},
		{"an operator pauses another type", operator, "POST", v1.PathQueues + "/secret/pause", ""},
		{"an operator schedules another type", operator, "PUT", v1.PathCrons + "/c", `{"spec":"@hourly","job":{"type":"secret","group":"a"}}`},
		{"an operator schedules a program", give(`{"role":"operator"}`), "PUT", v1.PathCrons + "/c", `{"spec":"@hourly","job":{"type":"command"}}`},
		{"an operator pauses a schedule", operator, "POST", v1.PathCrons + "/secret-3/pause", ""},
		{"an operator deletes a schedule", operator, "DELETE", v1.PathCrons + "/secret-3", ""},
		{"an operator makes a token", operator, "POST", v1.PathTokens, `{"role":"admin"}`},
		{"an operator rotates a token", operator, "POST", v1.PathTokens + "/x/rotate", `{}`},
		{"an operator revokes a token", operator, "DELETE", v1.PathTokens + "/x", ""},
		{"an operator claims", operator, "POST", v1.PathClaim, `{"workerId":"w","types":["mail"]}`},
		{"an operator reads the state", operator, "GET", v1.PathState, ""},
	}
	own := strings.NewReplacer("secret-1", ids[0], "secret-2", ids[1], "secret-3", s.Own("secret-3"))
	for _, r := range rows {
		r.path, r.body = own.Replace(r.path), own.Replace(r.body)
		s.attack(r.name, func(t *testing.T) {
			a := try(t, s.node, r.method, r.path, r.token, r.body)
			hidden := strings.Contains(a.Body, v1.TagNotFound) && strings.Contains(r.path+r.body, "secret-")
			if a.StatusCode != http.StatusForbidden && !hidden {
				t.Errorf("answered %d %s", a.StatusCode, a.Body)
			}
			if named := r.path + r.body; strings.Contains(named, "/secret-") && strings.Contains(a.Body, `\"secret\"`) {
				t.Errorf("it shows the type: %s", a.Body)
			}
		})
	}
	for _, id := range ids {
		if a := try(t, s.node, "GET", v1.PathJobs+"/"+id, admin, ""); a.StatusCode != http.StatusOK || !strings.Contains(a.Body, `"unclaimed"`) {
			t.Errorf("%s: %d %s", id, a.StatusCode, a.Body)
		}
	}
	s.settled()
}

// A claim belongs to its token: another worker with the right claim number cannot report on it.
func TestStolenClaims(t *testing.T) {
	t.Parallel()
	s := shareSecured(t)
	admin := bearer(s.token)
	owner, thief := bearer(s.give(`{"role":"worker"}`).Token), bearer(s.give(`{"role":"worker"}`).Token)
	id, kind := s.Own("j"), s.Own("mail")
	if a := try(t, s.node, "POST", v1.PathJobs, admin, `{"id":"`+id+`","type":"`+kind+`"}`); a.StatusCode != http.StatusOK {
		t.Fatal(a.Body)
	}
	var job v1.ClaimedJob
	claim := `{"workerId":"w","types":["` + kind + `"],"requestId":"` + s.Own("r") + `"}`
	a := try(t, s.node, "POST", v1.PathClaim, owner, claim)
	if err := json.Unmarshal([]byte(a.Body), &job); err != nil || job.Token == 0 {
		t.Fatalf("%d %s", a.StatusCode, a.Body)
	}
	one := fmt.Sprintf(`{"workerId":"w","token":%d}`, job.Token)
	many := fmt.Sprintf(`{"workerId":"w","jobs":[{"jobId":%q,"token":%d}]}`, id, job.Token)
	for name, r := range map[string][2]string{
		"complete":                {v1.PathJobs + "/" + id + "/complete", one},
		"fail":                    {v1.PathJobs + "/" + id + "/fail", strings.TrimSuffix(one, "}") + `,"error":"x"}`},
		"release":                 {v1.PathJobs + "/" + id + "/release", one},
		"heartbeat":               {v1.PathJobs + "/" + id + "/heartbeat", one},
		"complete without number": {v1.PathJobs + "/" + id + "/complete", `{"workerId":"w"}`},
		"complete in a batch":     {v1.PathComplete, many},
		"release in a batch":      {v1.PathRelease, many},
		"repeat the claim":        {v1.PathClaim, claim},
	} {
		s.attack(name, func(t *testing.T) {
			a := try(t, s.node, "POST", r[0], thief, r[1])
			if a.StatusCode == http.StatusOK && strings.Contains(a.Body, `"jobId":"`+id+`"`) && !strings.Contains(a.Body, v1.TagWrongWorker) {
				t.Errorf("the thief has the job: %d %s", a.StatusCode, a.Body)
			}
			if a := try(t, s.node, "GET", v1.PathJobs+"/"+id, admin, ""); !strings.Contains(a.Body, `"in_progress"`) {
				t.Fatalf("the job is changed: %s", a.Body)
			}
		})
	}
	if a := try(t, s.node, "POST", v1.PathJobs+"/"+id+"/complete", owner, one); a.StatusCode != http.StatusOK {
		t.Errorf("the owner completes: %d %s", a.StatusCode, a.Body)
	}
	s.settled()
}

// revokedMax is the time after the answer to a revocation in which a token must be out on every
// node: one second, and what a busy machine adds to the wake-up of a test.
const revokedMax = time.Second + 500*time.Millisecond

// A revoked token ends what is open with it, and gets no new requests, on every node within a
// second after the revocation was answered.
func TestTokensThatAreRevokedMidStream(t *testing.T) {
	t.Parallel()
	s := newSecured(t, 3)
	const waits = `{"workerId":"w","types":["none"],"waitMs":60000}`
	kinds := map[string]func(n *cluster.Node, head string) string{
		"events": func(n *cluster.Node, head string) string {
			return "GET " + v1.PathEvents + " HTTP/1.1\r\nHost: " + n.HTTP + "\r\nConnection: close\r\n" + head + "\r\n"
		},
		"stream": func(n *cluster.Node, head string) string {
			return "GET " + frame.Path + " HTTP/1.1\r\nHost: " + n.HTTP + "\r\n" + head + "Connection: Upgrade\r\nUpgrade: " + frame.Protocol + "\r\n\r\n"
		},
		"WebSocket": func(n *cluster.Node, head string) string {
			return "GET /v1/ws HTTP/1.1\r\nHost: " + n.HTTP + "\r\n" + head + "Connection: Upgrade\r\nUpgrade: websocket\r\n" +
				"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
		},
		"claim": func(n *cluster.Node, head string) string {
			return requestText("POST", v1.PathClaim, n.HTTP, head, waits)
		},
		"wait for a job": func(n *cluster.Node, head string) string {
			return requestText("GET", v1.PathJobs+"/never?wait%4Ds=60000", n.HTTP, head, "")
		},
		"wait for an LSN": func(n *cluster.Node, head string) string {
			return requestText("GET", v1.PathJobs+"?minLsn=999999-1", n.HTTP, head, "")
		},
		"wait for logs": func(n *cluster.Node, head string) string {
			return requestText("GET", v1.PathJobs+"/never/"+v1.ActionLogs+"?%77aitMs=60000", n.HTTP, head, "")
		},
		"dashboard": func(n *cluster.Node, head string) string {
			return "GET /ui/stream HTTP/1.1\r\nHost: " + n.HTTP + "\r\nConnection: close\r\n" + head + "\r\n"
		},
	}
	if a := try(t, s.node, "POST", v1.PathJobs, bearer(s.token), `{"id":"never","type":"never"}`); a.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", a.StatusCode, a.Body)
	}
	if a := try(t, s.node, "POST", v1.PathClaim, bearer(s.token), `{"workerId":"w","types":["never"],"max":1}`); a.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", a.StatusCode, a.Body)
	}
	type open struct {
		name string
		conn net.Conn
		in   *bufio.Reader
	}
	made := s.give(`{"role":"admin"}`)
	head := bearer(made.Token)
	var all []open
	for _, n := range s.Nodes {
		for kind, text := range kinds {
			conn := dial(t, n.HTTP)
			_ = conn.SetDeadline(time.Now().Add(patience))
			if _, err := io.WriteString(conn, text(n, head)); err != nil {
				t.Fatal(err)
			}
			o := open{kind + " on " + n.Name, conn, bufio.NewReader(conn)}
			if kind != "claim" && !strings.HasPrefix(kind, "wait") {
				line, err := o.in.ReadString('\n')
				if err != nil || !strings.Contains(line, " 101 ") && !strings.Contains(line, " 200 ") {
					t.Fatalf("%s: %q %v", o.name, line, err)
				}
			}
			all = append(all, o)
		}
	}
	type end struct {
		name string
		at   time.Time
		err  error
	}
	ends := make(chan end)
	for _, o := range all {
		go func() {
			_, err := io.Copy(io.Discard, o.in)
			ends <- end{o.name, time.Now(), err}
		}()
	}
	if a, err := s.local("DELETE", v1.PathTokens+"/"+made.ID, ""); err != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("revoke: %v %v", a, err)
	}
	revoked := time.Now()
	for _, n := range s.Nodes {
		go func() {
			err := cluster.Poll(patience, func() error {
				a, err := request(n.HTTP, requestText("GET", v1.PathJobs, n.HTTP, head, ""), answerMax)
				if err == nil && a.StatusCode != http.StatusUnauthorized {
					err = fmt.Errorf("answered %d", a.StatusCode)
				}
				return err
			})
			ends <- end{"new requests to " + n.Name, time.Now(), err}
		}()
	}
	for range len(all) + len(s.Nodes) {
		e := <-ends
		took := e.at.Sub(revoked)
		t.Logf("%s: %s", e.name, took.Round(time.Millisecond))
		if e.err != nil || took > revokedMax {
			t.Errorf("%s: ended %s after the revocation was answered; want %s: %v", e.name, took, revokedMax, e.err)
		}
	}
	s.settled()
}
