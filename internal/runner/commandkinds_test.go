//go:build unix

package runner

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/worker"
	"osqueue/internal/sandbox"
)

func payloadJob(payload string) worker.Job {
	return worker.Job{ClaimedJob: client.ClaimedJob{ID: "j1", Token: 9, Payload: json.RawMessage(payload)}}
}

func plainBox(t *testing.T) *sandbox.Box {
	t.Helper()
	box, err := sandbox.New(t.Context(), sandbox.Config{})
	check(t, err)
	return box
}

// A template is one argument, whatever the payload says.
func TestCommandTemplates(t *testing.T) {
	cases := []struct{ name, line, payload, want string }{
		{"text", `printf '[%s]' {{.url}} x`, `{"url":"http://a/?b c"}`, `"[http://a/?b c][x]"`},
		{"shell", `printf '[%s]' {{.a}}`, `{"a":"$(touch /tmp/osq-no) ; 'x' \"y\" *"}`, `"[$(touch /tmp/osq-no) ; 'x' \"y\" *]"`},
		{"template in a value", `printf '[%s]' {{.a}}`, `{"a":"{{.b}}","b":"no"}`, `"[{{.b}}]"`},
		{"within a word", `printf '[%s]' --size={{.w}}x{{.h}}`, `{"w":10000000,"h":1.50}`, `"[--size=10000000x1.50]"`},
		{"with blanks", `printf '[%s]' '{{ .a }}'`, `{"a":"x"}`, `"[x]"`},
		{"object and list", `printf '%s' {{.o}}`, `{"o":{"b":[1,2.0],"a":null}}`, `{"a":null,"b":[1,2.0]}`},
		{"null", `printf '[%s]' {{.a}} '{{or .a "x"}}' '{{range .a}}y{{end}}'`, `{"a":null}`, `"[null][x][]"`},
		{"JSON of others", `printf '[%s]' {{.a}} {{.b}}`, `{"a":"x","a":"y","b":"\ud800!"}`, "\"[y][\ufffd!]\""},
		{"empty", `printf '[%s]' {{.a}}`, `{"a":""}`, `[]`},
		{"condition", `printf '%s' '{{if .a}}1{{else}}2{{end}}'`, `{"a":false}`, `2`},
		{"the worker's variable", `printf '%s' "$OSQUEUE_TEST_OWN-{{.a}}"`, `{"a":"$HOME"}`, `"own-$HOME"`},
		{"the job's type is no template", `printf '%s' $OSQUEUE_JOB_TYPE`, `{"a":1}`, `"{{.a}}"`},
	}
	t.Setenv("OSQUEUE_TEST_OWN", "own")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			job := payloadJob(c.payload)
			job.Type = "{{.a}}"
			if got, err := mustCommand(t, c.line)(bounded(t), job); err != nil || string(got) != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestCommandTemplateLacksItsValue(t *testing.T) {
	for _, payload := range []string{`{}`, `null`, ``, `[1]`, `"a"`, `{"url":null}`} {
		got, err := mustCommand(t, `printf '%s' {{.url.host}}`)(bounded(t), payloadJob(payload))
		if err == nil || !failureOf(err).Permanent {
			t.Errorf("%s: got %s, %v", payload, got, err)
		}
	}
}

func TestCommandRefusesBadTemplates(t *testing.T) {
	for _, line := range []string{`echo {{.a`, `echo '{{nope .}}'`, `{{.program}} x`, `echo $UNSET_A{{.x}} '{{'`} {
		if _, err := Command(line); err == nil {
			t.Errorf("%s was taken", line)
		}
	}
}

// A command keeps values and waits, by its exit status and its last line.
func TestCommandsSuspend(t *testing.T) {
	for script, want := range map[string]string{
		`echo working; echo '{"steps":{"b":2,"a":1},"signal":"approved","timeout":"24h"}'; exit 79`: "the job waits for the signal approved",
		`echo '{"sleep":"72h"}'; exit 79`:                             "the job sleeps for 72h0m0s",
		`echo '{"sleep":"72h","signal":"s","timeout":"1h"}'; exit 79`: "says for what",
		`echo '{"signal":"s"}'; exit 79`:                              "says for what",
		`echo '{"sleep":"-1h"}'; exit 79`:                             "says for what",
		`echo '{"sleep":"1h","x":1}'; exit 79`:                        "says for what",
		`exit 79`:                                                     "says for what",
	} {
		fn, err := Command("sh -c '" + strings.ReplaceAll(script, "'", `'"'"'`) + "'")
		if err != nil {
			t.Fatal(err)
		}
		got := worker.Try(t.Context(), fn, client.ClaimedJob{ID: "j"})
		suspended := strings.HasPrefix(want, "the job")
		if got.Err == nil || !strings.Contains(got.Err.Error(), want) || (got.Outcome == worker.Suspended) != suspended || !suspended && !got.Failure.Permanent {
			t.Errorf("%s: %+v, want %q", script, got, want)
		}
	}
}

// A command finds what its job has kept in its environment.
func TestCommandsGetWhatTheirJobKept(t *testing.T) {
	fn, err := Command(`sh -c 'echo "[$OSQUEUE_STEPS,$OSQUEUE_SIGNALS,$OSQUEUE_PARENTS]"'`)
	if err != nil {
		t.Fatal(err)
	}
	got := worker.Try(t.Context(), fn, client.ClaimedJob{
		ID: "j", Steps: []v1.Step{{Name: "b", Value: []byte("2")}, {Name: "a", Value: []byte(`"1"`)}},
		Signals: []v1.Signal{{Name: "s"}, {Name: "s", Value: []byte("2")}}, Parents: []v1.Parent{{Name: "fetch", Result: []byte("[3]")}},
	})
	if want := `[{"a":"1","b":2},{"s":null},{"fetch":[3]}]`; string(got.Result) != want {
		t.Errorf("got %s, want %s", got.Result, want)
	}
}

func TestExitPolicy(t *testing.T) {
	policy, err := ParseExits([]string{"3=dead", "4=retry", "5=retry:2m", "*=fail"})
	check(t, err)
	cases := map[string]client.Failure{
		"1": {}, "3": {Permanent: true}, "4": {AtOnce: true}, "5": {Delay: 2 * time.Minute}, "75": {Delay: startPause},
	}
	for code, want := range cases {
		fn, err := CommandWith(CommandConfig{OnExit: policy}, "sh -c 'exit "+code+"'")
		check(t, err)
		_, err = fn(bounded(t), worker.Job{})
		if err == nil {
			t.Fatalf("exit %s is no failure", code)
		}
		got := failureOf(err)
		want.Error, want.Class = got.Error, "exit:"+code
		if got != want || !strings.Contains(got.Error, "exit status "+code) {
			t.Errorf("exit %s: %+v", code, got)
		}
	}
	others, err := ParseExits([]string{"*=dead"})
	if err != nil || !others.action(9).Dead || others.action(75).Dead {
		t.Errorf("%+v, %v", others, err)
	}
	for _, rule := range []string{"", "3", "0=dead", "256=dead", "x=dead", "3=maybe", "3=retry:x", "3=retry:-1s", "3=dead:1s"} {
		if _, err := ParseExits([]string{rule}); err == nil {
			t.Errorf("%q was taken", rule)
		}
	}
}

func TestCommandsRunWhatThePayloadSays(t *testing.T) {
	fn := Commands(plainBox(t))
	cases := []struct{ payload, want string }{
		{`{"argv":["sh","-c","cat; echo $A; echo bad >&2; exit 3"],"stdin":"in","env":{"A":"b c"}}`, `{"exit":3,"stdout":"inb c\n","stderr":"bad"}`},
		{`{"argv":["printf","%s","a;b $HOME"]}`, `{"exit":0,"stdout":"a;b $HOME","stderr":""}`},
		{`{"argv":["sh","-c","kill -9 $$"]}`, `{"exit":137,"stdout":"","stderr":""}`},
		{`{"argv":["printenv","OSQUEUE_FENCING_TOKEN"],"env":{"OSQUEUE_FENCING_TOKEN":"forged"}}`, `{"exit":0,"stdout":"9\n","stderr":""}`},
		{`{"argv":["printf","\\377"]}`, "{\"exit\":0,\"stdout\":\"\uFFFD\",\"stderr\":\"\"}"},
	}
	for _, c := range cases {
		if got, err := fn(bounded(t), payloadJob(c.payload)); err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v", c.payload, got, err)
		}
	}
	got, err := fn(bounded(t), payloadJob(`{"argv":["osqueue-no-such-program"]}`))
	if err != nil || !strings.HasPrefix(string(got), `{"exit":127,`) {
		t.Errorf("got %s, %v", got, err)
	}
	file := t.TempDir() + "/data"
	check(t, os.WriteFile(file, []byte("x"), 0o600))
	if got, err := fn(bounded(t), payloadJob(`{"argv":["`+file+`"]}`)); err != nil || !strings.HasPrefix(string(got), `{"exit":126,`) {
		t.Errorf("got %s, %v", got, err)
	}
	for _, payload := range []string{``, `{}`, `{"argv":[]}`, `{"argv":["a\u0000"]}`, `{"argv":["a"],"env":{"A=B":"c"}}`, `{"argv":"ls"}`} {
		if _, err := fn(bounded(t), payloadJob(payload)); err == nil || !failureOf(err).Permanent {
			t.Errorf("%s: %v", payload, err)
		}
	}
}

func TestCommandsThatAreEndedFail(t *testing.T) {
	box, err := sandbox.New(t.Context(), sandbox.Config{Limits: sandbox.Limits{Timeout: 100 * time.Millisecond}})
	check(t, err)
	if got, err := Commands(box)(bounded(t), payloadJob(`{"argv":["sleep","60"]}`)); err == nil || !strings.Contains(err.Error(), "longer than its timeout") {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := Commands(box)(bounded(t), payloadJob(`{"argv":["cat","/dev/zero"]}`)); err == nil {
		t.Errorf("got %s", got)
	}
}

func TestPython(t *testing.T) {
	fn, err := Python(plainBox(t), "")
	check(t, err)
	cases := []struct{ name, payload, want, fails string }{
		{"the example of the older system", `{"code":"def count_words(text): return len(text.split())","function":"count_words","args":["hello world"]}`, `2`, ""},
		{"named arguments", `{"code":"def f(a, b=0, **k): return [a, b, k]","function":"f","args":[1],"kwargs":{"b":2,"c":"ü"}}`, `[1, 2, {"c": "ü"}]`, ""},
		{"no arguments, no result", `{"code":"def f(): print('noise')","function":"f"}`, `null`, ""},
		{"imports and globals", `{"code":"import math\nX = 2\ndef f(): return math.sqrt(X * 8)","function":"f"}`, `4.0`, ""},
		{"recursion", `{"code":"def f(n): return 1 if n < 2 else n * f(n-1)","function":"f","args":[5]}`, `120`, ""},
		{"exception", `{"code":"def f(): raise ValueError('oh dear')","function":"f"}`, "", "ValueError: oh dear"},
		{"exit", `{"code":"import sys\ndef f(): sys.exit(0)","function":"f"}`, "", "ended its process"},
		{"no JSON", `{"code":"def f(): return {1, 2}","function":"f"}`, "", "not JSON serializable"},
		{"not a number", `{"code":"def f(): return float('nan')","function":"f"}`, "", "not JSON compliant"},
		{"exit below Python", `{"code":"import os\ndef f(): os._exit(9)","function":"f"}`, "", "exit status 9"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := fn(bounded(t), payloadJob(c.payload))
			if c.fails == "" && (err != nil || string(got) != c.want) {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
			if c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails) || failureOf(err).Permanent) {
				t.Errorf("got %s, %v; want %s", got, err, c.fails)
			}
		})
	}
	for payload, says := range map[string]string{
		`{"code":"def f(:","function":"f"}`: "SyntaxError", `{"code":"","function":"f"}`: "no function", `{"code":"f = 1","function":"f"}`: "no function",
		`{"function":"f"}`: "needs", `{"code":"x","function":""}`: "needs", `{"code":"x","function":"f","args":{}}`: "payload", ``: "payload",
	} {
		if _, err := fn(bounded(t), payloadJob(payload)); err == nil || !failureOf(err).Permanent || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", payload, err)
		}
	}
}
