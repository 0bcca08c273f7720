package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
)

// claimed is a job that a worker runs and a client follows.
type claimed struct {
	s     *secured
	id    string
	owner string // header of the worker's token
	token uint64 // of the claim
}

// claim makes a job of a type, which the owner of a token claims as the worker w.
func (s *secured) claim(id, typ, owner string) claimed {
	s.t.Helper()
	if a := try(s.t, s.node, "POST", v1.PathJobs, bearer(s.token), `{"id":"`+id+`","type":"`+typ+`"}`); a.StatusCode != http.StatusOK {
		s.t.Fatal(a.Body)
	}
	a := try(s.t, s.node, "POST", v1.PathClaim, owner, `{"workerId":"w","types":["`+typ+`"],"leaseMs":300000}`)
	var job v1.ClaimedJob
	if err := json.Unmarshal([]byte(a.Body), &job); err != nil || job.Token == 0 {
		s.t.Fatalf("%d %s", a.StatusCode, a.Body)
	}
	return claimed{s, id, owner, job.Token}
}

// logs follows the job as an admin, and returns all that its attempts have said.
func (c claimed) logs(t *testing.T) string {
	t.Helper()
	a := try(t, c.s.node, "GET", v1.PathJobs+"/"+c.id+"/"+v1.ActionLogs, bearer(c.s.token), "")
	var out v1.JobLogs
	if err := json.Unmarshal([]byte(a.Body), &out); err != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", a.StatusCode, a.Body)
	}
	var text strings.Builder
	for _, chunk := range out.Chunks {
		text.WriteString(chunk.Text)
	}
	return text.String()
}

// send returns the body that sends a chunk.
func (c claimed) send(worker string, token uint64, offset int64, text string) string {
	body, err := json.Marshal(v1.SendLogs{WorkerID: worker, Jobs: []v1.SentLog{{JobID: c.id, Token: token, Offset: offset, Text: text}}})
	if err != nil {
		c.s.t.Fatal(err)
	}
	return string(body)
}

// The log that a follower sees has only what the holder of the claim has written. Strangers learn
// neither the log nor which jobs are followed.
func TestForgedLogs(t *testing.T) {
	t.Parallel()
	s := shareSecured(t)
	give := func(body string) string { return bearer(s.give(body).Token) }
	owner, thief := give(`{"role":"worker"}`), give(`{"role":"worker"}`)
	film := s.Own("film")
	narrow := give(`{"role":"worker","types":["` + film + `"]}`)
	job := s.claim(s.Own("live"), s.Own("mail"), owner)
	other := s.claim(s.Own("other"), film, owner)
	const said = "what the owner said\n"
	if text := job.logs(t); text != "" {
		t.Fatalf("it begins with %q", text)
	}
	job.logs(t) // it is watched from here on
	other.logs(t)
	if a := try(t, s.node, "POST", v1.PathLogs, owner, job.send("w", job.token, 0, said)); a.StatusCode != http.StatusOK || !strings.Contains(a.Body, `"`+job.id+`"`) {
		t.Fatalf("%d %s", a.StatusCode, a.Body)
	}
	const lie = "a lie\n"
	at := int64(len(said))
	many := `{"workerId":"w","jobs":[` + strings.TrimSuffix(strings.Repeat(`{"jobId":"`+job.id+`","token":1,"text":"x"},`, 1001), ",") + `]}`
	chunk := func(fields string) string {
		return fmt.Sprintf(`{"workerId":"w","jobs":[{"jobId":%q,"token":%d,%s}]}`, job.id, job.token, fields)
	}
	for _, r := range []struct {
		name, token, body string
		want              int
	}{
		{"another worker's token", thief, job.send("w", job.token, at, lie), 200},
		{"another worker's token and name", thief, job.send("v", job.token, at, lie), 200},
		{"a token of another type", narrow, job.send("w", job.token, at, lie), 200},
		{"another worker's name", owner, job.send("v", job.token, at, lie), 200},
		{"the claim of another job", owner, job.send("w", other.token, at, lie), 200},
		{"an earlier claim", owner, job.send("w", job.token-1, at, lie), 200},
		{"a later claim", owner, job.send("w", job.token+1, at, lie), 200},
		{"the last claim", owner, job.send("w", 1<<64-1, at, lie), 200},
		{"no claim", owner, job.send("w", 0, at, lie), 200},
		{"what was said already", owner, job.send("w", job.token, 0, lie), 200},
		{"a job that is not there", owner, claimed{s: s, id: "nope"}.send("w", job.token, at, lie), 200},
		{"a producer", give(`{"role":"producer"}`), job.send("w", job.token, at, lie), 403},
		{"a reader", give(`{"role":"reader"}`), job.send("w", job.token, at, lie), 403},
		{"no token", "", job.send("w", job.token, at, lie), 401},
		{"no worker", owner, job.send("", job.token, at, lie), 400},
		{"a negative offset", owner, chunk(`"offset":-1,"text":"a lie"`), 400},
		{"the last offset", owner, chunk(`"offset":9223372036854775807,"text":"a lie"`), 400},
		{"a negative length", owner, chunk(`"offset":19,"bytes":-1,"text":"a lie"`), 400},
		{"a huge length", owner, chunk(`"offset":19,"bytes":1099511627776,"text":"a lie"`), 400},
		{"a length without a text", owner, chunk(`"offset":0,"bytes":0,"text":""`), 200},
		{"a huge text", owner, job.send("w", job.token, at, strings.Repeat("x", 25<<10)), 400},
		{"too many jobs", owner, many, 413},
		{"a negative wait", owner, `{"workerId":"w","waitMs":-1}`, 400},
		{"a wrong type", owner, chunk(`"text":{"$gt":""}`), 400},
		{"an id of a path", owner, `{"workerId":"w","jobs":[{"jobId":"../` + job.id + `","token":1,"text":"x"}]}`, 200},
	} {
		s.attack(r.name, func(t *testing.T) {
			a := try(t, s.node, "POST", v1.PathLogs, r.token, r.body)
			if a.StatusCode != r.want {
				t.Errorf("answered %d %.200s, want %d", a.StatusCode, a.Body, r.want)
			}
			if r.token != owner && (strings.Contains(a.Body, "live") || strings.Contains(a.Body, fmt.Sprint(job.token))) {
				t.Errorf("a stranger learns which job is followed: %s", a.Body)
			}
			if text := job.logs(t); text != said {
				t.Errorf("the log is %q", text)
			}
		})
	}
	at1 := v1.PathJobs + "/" + job.id + "/" + v1.ActionLogs
	for _, r := range []struct {
		name, token, path string
		want              int
	}{
		{"a reader of another type", give(`{"role":"reader","types":["` + film + `"]}`), at1, 404},
		{"a reader of another group", give(`{"role":"reader","groups":["a"]}`), at1, 404},
		{"a worker reads", thief, at1, 403},
		{"a producer reads", give(`{"role":"producer"}`), at1, 403},
		{"nobody reads", "", at1, 401},
		{"a log that is not there", bearer(s.token), v1.PathJobs + "/nope/" + v1.ActionLogs, 404},
		{"a negative position", bearer(s.token), at1 + "?offset=-1", 400},
		{"a position of 2^64", bearer(s.token), at1 + "?token=18446744073709551616", 400},
		{"a wait of no number", bearer(s.token), at1 + "?waitMs=x", 400},
		{"a negative wait to read", bearer(s.token), at1 + "?waitMs=-5", 400},
	} {
		s.attack(r.name, func(t *testing.T) {
			if a := try(t, s.node, "GET", r.path, r.token, ""); a.StatusCode != r.want || strings.Contains(a.Body, said[:10]) {
				t.Errorf("answered %d %s, want %d", a.StatusCode, a.Body, r.want)
			}
		})
	}
	s.attack("the end of a claim", func(t *testing.T) {
		one := fmt.Sprintf(`{"workerId":"w","token":%d}`, job.token)
		if a := try(t, s.node, "POST", v1.PathJobs+"/"+job.id+"/complete", owner, one); a.StatusCode != http.StatusOK {
			t.Fatal(a.Body)
		}
		try(t, s.node, "POST", v1.PathLogs, owner, job.send("w", job.token, at, lie))
		if text := job.logs(t); text != said {
			t.Errorf("the log is %q", text)
		}
	})
	s.settled()
}

// Followers and workers that flood the live logs cost bounded memory.
func TestFloodsOfLogs(t *testing.T) {
	t.Parallel()
	s := newSecured(t, 1)
	admin, owner := bearer(s.token), bearer(s.give(`{"role":"worker"}`).Token)
	const jobs = 200
	var all []claimed
	for i := range jobs {
		all = append(all, s.claim(fmt.Sprint("flood-", i), "mail", owner))
	}
	for _, c := range all {
		c.logs(t)
	}
	line := strings.Repeat("x", 16<<10)
	s.attack("lines without an end", func(t *testing.T) {
		for round := range 20 {
			for i := 0; i < jobs; i += 40 {
				in := v1.SendLogs{WorkerID: "w"}
				for _, c := range all[i : i+40] {
					in.Jobs = append(in.Jobs, v1.SentLog{JobID: c.id, Token: c.token, Offset: int64(round * len(line)), Text: line})
				}
				body, err := json.Marshal(in)
				if err != nil {
					t.Fatal(err)
				}
				if a := try(t, s.node, "POST", v1.PathLogs, owner, string(body)); a.StatusCode != http.StatusOK {
					t.Fatalf("%d %s", a.StatusCode, a.Body)
				}
			}
		}
	})
	get := func(c claimed, query string) string {
		return requestText("GET", v1.PathJobs+"/"+c.id+"/"+v1.ActionLogs+query, s.node.HTTP, admin, "")
	}
	end := func(c claimed) string { return fmt.Sprintf("?token=%d&offset=%d&waitMs=60000", c.token, 1<<60) }
	s.attack("followers that wait", func(t *testing.T) { openMany(t, s.node, 1200, get(all[0], end(all[0]))) })
	s.attack("workers that wait", func(t *testing.T) {
		openMany(t, s.node, 400, requestText("POST", v1.PathLogs, s.node.HTTP, owner, `{"workerId":"nobody","waitMs":60000}`))
	})
	s.attack("followers that do not read", func(t *testing.T) {
		one := strings.ReplaceAll(get(all[0], ""), "Connection: close\r\n", "")
		openMany(t, s.node, 64, strings.Repeat(one, 50))
	})
	s.attack("a position far ahead", func(t *testing.T) {
		if a := try(t, s.node, "GET", v1.PathJobs+"/flood-1/"+v1.ActionLogs+"?token=18446744073709551615&offset=9223372036854775807", admin, ""); a.StatusCode != http.StatusOK {
			t.Errorf("answered %d %s", a.StatusCode, a.Body)
		}
	})
	s.attack("a follower afterwards", func(t *testing.T) {
		c := all[1]
		c.logs(t) // after ten seconds without a reader the log was forgotten
		if a := try(t, s.node, "POST", v1.PathLogs, owner, c.send("w", c.token, 1<<30, "afterwards")); a.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", a.StatusCode, a.Body)
		}
		if text := c.logs(t); !strings.HasSuffix(text, "afterwards") || len(text) > 64<<10 {
			t.Errorf("the log has %d bytes", len(text))
		}
	})
	t.Logf("at most %d MiB more than at rest", (resident(t, s.node, "VmHWM")-s.before[s.node])>>20)
	s.settled()
}

// terminalTricks are texts that change a terminal which prints them: colours, the title, what was printed before,
// the clipboard, the answer to a question, and the order of the characters.
var terminalTricks = []string{
	"\x1b[31mred", "\x1b]0;title\x07", "\x1b[2J\x1b[H", "\x1b]52;c;cm0gLXJm\x07", "\x1b[6n", "\x1bP$q\"p\x1b\\", "\x1b[?1049h", "a\rb", "a\bb", "\x07", "\x00",
	"\u009b31m", "\u009d0;t\u009c", "\x7f", "\u202egpj.exe", "\u2066x\u2069", "\u2028", "\x0e", "a\x0bb\x0cc", "the end",
}

// No command prints what a job, a worker or a producer wrote in a form that changes the terminal.
func TestEscapesInTheTerminal(t *testing.T) {
	t.Parallel()
	s := newSecured(t, 1)
	owner := bearer(s.give(`{"role":"worker"}`).Token)
	binary, err := cluster.Binary()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(terminalTricks, " ")
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	job := s.claim("escape", "mail", owner)
	job.logs(t)
	follow := exec.CommandContext(s.Context(patience), binary, "job", "logs", "escape", "--follow", "--servers", s.node.HTTP)
	output, err := os.Create(filepath.Join(t.TempDir(), "followed"))
	if err != nil {
		t.Fatal(err)
	}
	follow.Stdout, follow.Stderr = output, output
	followed := func() string {
		text, err := os.ReadFile(output.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	follow.Env = append(follow.Environ(), "OSQUEUE_TOKEN="+s.token, "TERM=xterm", "CLICOLOR_FORCE=1")
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	post := func(path, body string) {
		t.Helper()
		if a := try(t, s.node, "POST", path, owner, body); a.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", path, a.StatusCode, a.Body)
		}
	}
	at := int64(0)
	for i := range 4 { // also with a boundary of chunks after each byte of the first escape
		part := text
		if i < 3 {
			part = text[i : i+1]
		}
		post(v1.PathLogs, job.send("w", job.token, at, part+"\n"))
		at += int64(len(part) + 1)
	}
	post(v1.PathJobs+"/escape/"+v1.ActionProgress, fmt.Sprintf(`{"workerId":"w","token":%d,"progress":{"percent":5,"message":%s}}`, job.token, quoted))
	s.Eventually(patience, "the follower prints it as it happens", func() error {
		if out := followed(); !strings.Contains(out, "the end") || !strings.Contains(out, "5%") {
			return fmt.Errorf("%q", out)
		}
		return nil
	})
	post(v1.PathJobs+"/escape/fail", fmt.Sprintf(`{"workerId":"w","token":%d,"retryable":false,"error":%s}`, job.token, quoted))
	_ = follow.Wait() // the job is dead
	_ = output.Close()
	check := func(t *testing.T, out string, wants bool) {
		t.Helper()
		if wants && !strings.Contains(out, "red") {
			t.Errorf("it does not show the text: %.300q", out)
		}
		for i, r := range out {
			if r == utf8.RuneError || r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
				t.Errorf("it prints %q: %.80q", r, out[max(0, i-20):])
				return
			}
		}
	}
	s.attack("job logs --follow", func(t *testing.T) {
		check(t, followed(), true)
	})
	for _, args := range []string{
		"job logs escape", "job show escape", "job ls --status all", "events --since start --limit 6", "events --since start --limit 6 --json", "dead ls", "stats", "queue ls", "job logs escape --json", "job show escape --json",
		"audit", "worker ls", "job show " + text,
	} {
		s.attack(strings.ToValidUTF8(args[:min(len(args), 30)], ""), func(t *testing.T) {
			fields := strings.Fields(args)
			if strings.HasPrefix(args, "job show \x1b") {
				fields = []string{"job", "show", strings.ReplaceAll(text, "\x00", "")}
			}
			cmd := exec.CommandContext(s.Context(patience), binary, append(fields, "--servers", s.node.HTTP)...)
			cmd.Env = append(cmd.Environ(), "OSQUEUE_TOKEN="+s.token, "TERM=xterm", "CLICOLOR_FORCE=1")
			out, err := cmd.CombinedOutput()
			t.Logf("%v\n%s", err, out)
			check(t, string(out), strings.HasPrefix(args, "job logs") || strings.HasPrefix(args, "job show e"))
		})
	}
	s.settled()
}
