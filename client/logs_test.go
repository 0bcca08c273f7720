package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	v1 "osqueue/client/api/v1"
)

// following returns a client whose server answers the requests for the log of a job with answers
// in turn, and then with the last one.
func following(t *testing.T, answers ...string) (c *Client, positions func() []string) {
	t.Helper()
	var asked []string
	c, err := New(Config{Servers: []string{"127.0.0.1:1"}, RetryFor: -1, Transport: roundTrip(func(r *http.Request) *http.Response {
		w := httptest.NewRecorder()
		if r.URL.Path != v1.PathJobs+"/j/"+v1.ActionLogs {
			w.WriteHeader(http.StatusNotFound)
			return w.Result()
		}
		q := r.URL.Query()
		asked = append(asked, q.Get(v1.ParamToken)+"/"+q.Get(v1.ParamOffset))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.WriteString(answers[min(len(asked), len(answers))-1])
		return w.Result()
	})})
	check(t, err)
	t.Cleanup(c.Close)
	return c, func() []string { return asked }
}

// roundTrip answers requests without a network.
type roundTrip func(r *http.Request) *http.Response

func (fn roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	resp := fn(r)
	resp.Request = r
	return resp, nil
}

// A follower gets every byte once, although a new leader repeats what the old one had sent, and
// learns how many bytes are lost.
func TestFollowLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, positions := following(t,
			`{"status":"in_progress","token":5,"offset":4,"chunks":[{"attempt":1,"token":5,"offset":0,"bytes":4,"text":"one "}]}`,
			`{"status":"in_progress","token":5,"offset":4}`,
			`{"status":"in_progress","token":5,"offset":7,"chunks":[{"attempt":1,"token":5,"offset":0,"bytes":7,"text":"one two"}]}`,
			`{"status":"in_progress","token":5,"offset":20,"chunks":[{"attempt":1,"token":5,"offset":20,"bytes":0,"lost":13}]}`,
			`{"status":"completed","token":9,"offset":3,"chunks":[{"attempt":2,"token":9,"offset":1,"bytes":2,"text":"é","lost":1},`+
				`{"attempt":1,"token":5,"offset":20,"bytes":3,"text":"old"}]}`,
		)
		var got strings.Builder
		for chunk, err := range c.FollowLogs(t.Context(), "j") {
			check(t, err)
			fmt.Fprintf(&got, "%d:%d+%d<%d>%s|", chunk.Attempt, chunk.Offset, chunk.Bytes, chunk.Lost, chunk.Text)
		}
		if want := "1:0+4<0>one |1:4+3<0>two|1:20+0<13>|2:1+2<1>é|"; got.String() != want {
			t.Errorf("got %q, want %q", got.String(), want)
		}
		if got := strings.Join(positions(), " "); got != "0/0 5/4 5/4 5/7 5/20" {
			t.Errorf("asked for %s", got)
		}
	})
}

// The loop ends with its caller's break, context and client, and does not flood a server that
// answers at once.
func TestFollowLogsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const line = `{"status":"in_progress","token":5,"offset":1,"chunks":[{"attempt":1,"token":5,"offset":0,"bytes":1,"text":"x"}]}`
		c, positions := following(t, line)
		for range c.FollowLogs(t.Context(), "j") {
			break
		}
		if n := len(positions()); n != 1 {
			t.Errorf("%d requests after a break", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := lastError(c.FollowLogs(ctx, "j"))
		if n := len(positions()); !errors.Is(err, context.DeadlineExceeded) || n > 102 {
			t.Errorf("%v after %d requests in 10 s", err, n)
		}
		time.AfterFunc(10*time.Second, c.Close)
		if err := lastError(c.FollowLogs(t.Context(), "j")); !errors.Is(err, ErrClosed) {
			t.Errorf("%v after Close", err)
		}
		if err := lastError(c.FollowLogs(t.Context(), "")); err == nil {
			t.Error("a job without an id is followed")
		}
	})
}

func lastError(chunks func(func(v1.LogChunk, error) bool)) (last error) {
	for _, err := range chunks {
		last = err
	}
	return last
}

// FuzzFollowLogs: whatever a server answers, the loop ends, no byte comes twice, and positions
// only grow.
func FuzzFollowLogs(f *testing.F) {
	f.Add(`{"status":"in_progress","chunks":[{"token":5,"offset":0,"bytes":4,"text":"one "}]}`, `{"status":"dead","chunks":[{"token":5,"offset":2,"bytes":4,"text":"e tw"}]}`)
	f.Add(`{"chunks":[{"token":5,"offset":9,"bytes":9,"text":"x","lost":-4},{"token":4,"offset":99,"bytes":1}]}`, `{"status":"completed","chunks":[{"token":5,"offset":-7,"bytes":99,"text":"\ud800é"}]}`)
	f.Add(`{"chunks":[{"token":5,"offset":9223372036854775807,"bytes":9223372036854775807}]}`, `{`)
	f.Add(`{"chunks":[{"token":18446744073709551615,"offset":-9223372036854775808,"bytes":-1}]}`, ``)
	f.Add(`{"chunks":[{"token":1,"bytes":3,"text":"$osqueue$1$aaaa"},{"token":1,"offset":1,"bytes":3,"text":"$osqueue$1$aaaa"}]}`, `null`)
	c, err := New(Config{Servers: []string{"127.0.0.1:1"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.Close)
	f.Fuzz(func(t *testing.T, first, second string) {
		follower := follower{c: c, id: "j"}
		var token uint64
		var end int64
		for _, body := range []string{first, second, first} {
			var out v1.JobLogs
			if decode([]byte(body), &out) != nil {
				return
			}
			for _, chunk := range out.Chunks {
				fresh, err := follower.open(t.Context(), &chunk)
				if err != nil {
					return
				}
				if follower.token < token || follower.token == token && follower.offset < end {
					t.Fatalf("%+v moves the position from %d/%d back to %d/%d", chunk, token, end, follower.token, follower.offset)
				}
				if chunk.Token > token {
					end = 0
				}
				if !fresh {
					token, end = follower.token, follower.offset
					continue
				}
				if chunk.Offset < end || chunk.Offset != end+chunk.Lost || chunk.Offset+chunk.Bytes != follower.offset || !utf8.ValidString(chunk.Text) {
					t.Fatalf("%+v after %d/%d", chunk, token, end)
				}
				token, end = follower.token, follower.offset
			}
		}
	})
}
