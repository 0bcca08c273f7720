package attack

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
	"osqueue/tests/cluster"
)

// onlyStreams fails a test whose client calls a route over HTTP instead of its stream.
type onlyStreams struct {
	t  *testing.T
	rt http.RoundTripper
}

func (o onlyStreams) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		o.t.Errorf("%s %s went over HTTP", r.Method, r.URL.Path)
	}
	return o.rt.RoundTrip(r)
}

// overStream returns a client that makes its calls over the stream protocol.
func overStream(t *testing.T, n *cluster.Node, token string) *client.Client {
	t.Helper()
	rt := &http.Transport{}
	cl, err := client.New(client.Config{
		Servers: []string{n.HTTP}, Token: token, Protocol: client.ProtocolStream, RetryFor: -1, Transport: onlyStreams{t, rt},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cl.Close()
		rt.CloseIdleConnections()
	})
	return cl
}

// A token has the same limits over a stream as over HTTP.
func TestStreamsBeyondTheirScope(t *testing.T) {
	s := shareSecured(t)
	mail, secret := s.Own("mail"), s.Own("secret")
	give := func(body string) *client.Client { return overStream(t, s.node, s.give(body).Token) }
	producer, worker := give(`{"role":"producer","types":["`+mail+`"],"maxPayload":10}`), give(`{"role":"worker","types":["`+mail+`"]}`)
	full := give(`{"role":"producer","maxJobs":1}`)
	ctx := s.Context(patience)
	if _, err := full.Enqueue(ctx, client.NewJob{ID: secret, Type: secret}); err != nil {
		t.Fatal(err)
	}
	enqueue := func(cl *client.Client, job client.NewJob) func() error {
		return func() error { _, err := cl.Enqueue(ctx, job); return err }
	}
	claim := func(cl *client.Client, types ...string) func() error {
		return func() error {
			_, err := cl.Claim(ctx, client.ClaimOptions{Worker: "w", Types: types, Max: 1})
			return err
		}
	}
	for _, r := range []struct {
		name string
		call func() error
		tag  string
	}{
		{"a producer enqueues another type", enqueue(producer, client.NewJob{Type: secret}), v1.TagForbidden},
		{"a producer enqueues no type", enqueue(producer, client.NewJob{}), v1.TagForbidden},
		{"a producer enqueues a pattern", enqueue(producer, client.NewJob{Type: "*"}), v1.TagForbidden},
		{"a producer enqueues a large payload", enqueue(producer, client.NewJob{Type: mail, Payload: []byte(`"0123456789"`)}), v1.TagForbidden},
		{"a producer enqueues a program", enqueue(full, client.NewJob{Type: "command"}), v1.TagForbidden},
		{"one job of a batch", func() error {
			_, err := producer.EnqueueBatch(ctx, []client.NewJob{{Type: mail}, {Type: secret}})
			return err
		}, v1.TagForbidden},
		{"a producer claims", claim(producer, mail), v1.TagForbidden},
		{"a worker claims another type", claim(worker, secret), v1.TagForbidden},
		{"a worker claims all", claim(worker), v1.TagForbidden},
		{"a worker enqueues", enqueue(worker, client.NewJob{Type: mail}), v1.TagForbidden},
		{"a token over its quota", enqueue(full, client.NewJob{Type: s.Own("more")}), v1.TagTooManyTokenJobs},
	} {
		s.attack(r.name, func(t *testing.T) {
			if err := r.call(); !client.HasTag(err, r.tag) {
				t.Errorf("answered %v", err)
			}
		})
	}
	if a := try(t, s.node, "GET", v1.PathJobs+"?status=all&type="+mail, bearer(s.token), ""); !strings.Contains(a.Body, `"jobs":[]`) {
		t.Errorf("something was enqueued: %s", a.Body)
	}
	s.settled()
}

// A claim that was made over a stream belongs to its token, also for reports over a stream.
func TestStolenClaimsOverStreams(t *testing.T) {
	s := shareSecured(t)
	admin := bearer(s.token)
	give := func() *client.Client { return overStream(t, s.node, s.give(`{"role":"worker"}`).Token) }
	owner, thief := give(), give()
	ctx := s.Context(patience)
	id, mail := s.Own("j"), s.Own("mail")
	if a := try(t, s.node, "POST", v1.PathJobs, admin, `{"id":"`+id+`","type":"`+mail+`"}`); a.StatusCode != http.StatusOK {
		t.Fatal(a.Body)
	}
	jobs, err := owner.Claim(ctx, client.ClaimOptions{Worker: "w", Types: []string{mail}, Max: 1})
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	lease := jobs[0].Lease()
	stolen := func(beats []client.Beat, err error) error {
		if err == nil && (len(beats) != 1 || beats[0].Tag == "") {
			t.Errorf("the thief has the job: %+v", beats)
		}
		return nil
	}
	for name, report := range map[string]func() error{
		"complete":            func() error { return thief.Complete(ctx, lease, json.RawMessage(`1`)) },
		"fail":                func() error { return thief.Fail(ctx, lease, client.Failure{Error: "x"}) },
		"release":             func() error { return thief.Release(ctx, lease) },
		"heartbeat":           func() error { return stolen(thief.Heartbeat(ctx, "w", []client.Lease{lease})) },
		"complete in a batch": func() error { return stolen(thief.CompleteBatch(ctx, "w", []client.Completion{{Lease: lease}})) },
		"release in a batch":  func() error { return stolen(thief.ReleaseBatch(ctx, "w", []client.Lease{lease})) },
	} {
		s.attack(name, func(t *testing.T) {
			err := report()
			if alone := !strings.Contains(name, "batch") && name != "heartbeat"; alone && !client.HasTag(err, v1.TagWrongWorker) {
				t.Errorf("answered %v", err)
			}
			if a := try(t, s.node, "GET", v1.PathJobs+"/"+id, admin, ""); !strings.Contains(a.Body, `"in_progress"`) {
				t.Fatalf("the job is changed: %s", a.Body)
			}
		})
	}
	if err := owner.Complete(ctx, lease, nil); err != nil {
		t.Errorf("the owner completes: %v", err)
	}
	s.settled()
}

// A token that expires while something is open with it ends it within a second, and a stream
// answers nothing more with it.
func TestTokensThatExpireMidStream(t *testing.T) {
	s := shareSecured(t)
	const lives = 3 * time.Second
	made := s.give(`{"role":"admin","ttlMs":3000}`)
	end := time.Now().Add(lives)
	cl := overStream(t, s.node, made.Token)
	ctx := s.Context(patience)
	if _, err := cl.Enqueue(ctx, client.NewJob{ID: s.Own("before"), Type: "mail"}); err != nil {
		t.Fatal(err)
	}
	n, head := s.node, bearer(made.Token)
	const waits = `{"workerId":"w","types":["none"],"waitMs":60000}`
	ended := make(map[string]chan error)
	for name, text := range map[string]string{
		"events": "GET " + v1.PathEvents + " HTTP/1.1\r\nHost: " + n.HTTP + "\r\nConnection: close\r\n" + head + "\r\n",
		"stream": "GET " + frame.Path + " HTTP/1.1\r\nHost: " + n.HTTP + "\r\n" + head + "Connection: Upgrade\r\nUpgrade: " + frame.Protocol + "\r\n\r\n",
		"claim":  requestText("POST", v1.PathClaim, n.HTTP, head, waits),
	} {
		conn := dial(t, n.HTTP)
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		ended[name] = done
		go func(in net.Conn) {
			_, err := io.Copy(io.Discard, bufio.NewReader(in))
			done <- err
		}(conn)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := cl.Claim(ctx, client.ClaimOptions{Worker: "w", Types: []string{"none"}, Max: 1, Wait: time.Minute})
		waiting <- err
	}()
	ended["claim over the client's stream"] = make(chan error, 1)
	for name, done := range ended {
		s.attack(name, func(t *testing.T) {
			if name == "claim over the client's stream" {
				if err := <-waiting; err == nil {
					t.Error("the claim is answered")
				}
			} else if err := <-done; err != nil {
				t.Errorf("it does not end: %v", err)
			}
			// One second, and what a busy machine adds.
			if over := time.Since(end); over < -time.Second || over > 4*time.Second {
				t.Errorf("it ended %s after the token", over)
			}
		})
	}
	s.attack("a new client", func(t *testing.T) {
		again, cancel := context.WithTimeout(ctx, answerMax)
		defer cancel()
		other, err := client.New(client.Config{Servers: []string{n.HTTP}, Token: made.Token, RetryFor: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if _, err := other.Enqueue(again, client.NewJob{ID: s.Own("after"), Type: "mail"}); !client.HasTag(err, v1.TagUnauthorized) {
			t.Errorf("answered %v", err)
		}
	})
	s.settled()
}
