package transcript

import (
	"strings"
	"testing"
)

// right is a case with nothing wrong in it.
const right = `{"name":"n","seq":"s","request":{"transport":"http","method":"GET","path":"/x"},` +
	`"response":{"status":200,"headers":{},"body":{"a":1}},"volatile":["$.a"]}`

// TestLoadKnowsEveryWord changes one part of a valid case at a time: a case with an unknown
// part must not be played.
func TestLoadKnowsEveryWord(t *testing.T) {
	if _, err := Load([]byte("[" + right + "]")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{`"name":"n"`, `"name":"n","retries":3`, "retries"},
		{`"name":"n"`, `"Name":"n"`, "Name"},
		{`"name":"n"`, `"name":"n","name":"m"`, "name"},
		{`"name":"n",`, ``, "no name"},
		{`"seq":"s",`, ``, "no sequence"},
		{`"method":"GET"`, `"method":"GET","trailers":{}`, "trailers"},
		{`"status":200`, `"status":200,"statusNot":[500]`, "statusNot"},
		{`"transport":"http"`, `"transport":"udp"`, "udp"},
		{`"transport":"http"`, `"transport":"http","message":{}`, "message"},
		{`"transport":"http"`, `"transport":"ws"`, "unknown"},
		{`"seq":"s"`, `"seq":"s","config":"large"`, "large"},
		{`"seq":"s"`, `"seq":"s","seed":{}`, "seed"},
		{`"seq":"s"`, `"seq":"s","wait_ms":-1`, "negative"},
		{`"seq":"s"`, `"seq":"s","formats":{"$.a":"uuid9"}`, "uuid9"},
		{`"seq":"s"`, `"seq":"s","formats":{"a":"uuid4"}`, "no place"},
		{`"seq":"s"`, `"seq":"s","refs":{"$.a":"jobId"}`, "no reference"},
		{`"seq":"s"`, `"seq":"s","refs":{"$.a":"$jobId*2"}`, "no reference"},
		{`"seq":"s"`, `"seq":"s","capture":{"jobId":".a"}`, "no place"},
		{`"volatile":["$.a"]`, `"volatile":["a"]`, "no place"},
		{`"volatile":["$.a"]`, `"soft":["$a"]`, "no place"},
		{`"volatile":["$.a"]`, `"optional":["$.a[x]"]`, "no place"},
		{`"volatile":["$.a"]`, `"jsonBytes":["$..a"]`, "no place"},
		{`"method":"GET"`, `"method":"GET","target":"leader"`, "target"},
		{`"method":"GET"`, `"method":"GET","body":1,"bodyText":"1"`, "several bodies"},
		{`"method":"GET"`, `"method":"GET","proto":{"message":"Nope","fields":{}}`, "Nope"},
		{`"method":"GET"`, `"method":"GET","envelope":true`, "envelope"},
		{`"method":"GET",`, ``, "no method"},
		{`"status":200,`, ``, "status"},
		{`"status":200`, `"status":200,"bodyText":"x"`, "several bodies"},
		{`"status":200`, `"status":200,"grpcStatus":0`, "gRPC-Web"},
	} {
		if !strings.Contains(right, c.old) {
			t.Fatalf("%s is not in the case", c.old)
		}
		_, err := Load([]byte("[" + strings.Replace(right, c.old, c.new, 1) + "]"))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.new, err, c.want)
		}
	}
	for _, text := range []string{"", "[]", "{}", "[" + right + "," + right + "]", "[" + right + "] x"} {
		if _, err := Load([]byte(text)); err == nil {
			t.Errorf("%.20q was read", text)
		}
	}
}

func TestLoadMessages(t *testing.T) {
	const frame = `[{"name":"n","seq":"s","request":{"transport":"ws","path":"/w",REQUEST},"response":{RESPONSE}}]`
	for _, c := range []struct {
		request, response string
		ok                bool
	}{
		{`"message":{}`, `"message":{}`, true},
		{`"messages":[{}]`, `"messages":[{}]`, true},
		{`"messages":[{}]`, `"message":{}`, false},
		{`"message":{}`, `"messages":[{}]`, false},
		{`"message":{}`, ``, false},
		{`"conn":"a"`, `"message":{}`, false},
		{`"message":{},"messageText":"x"`, `"message":{}`, false},
	} {
		text := strings.NewReplacer("REQUEST", c.request, "RESPONSE", c.response).Replace(frame)
		if _, err := Load([]byte(text)); (err == nil) != c.ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestRecordingsUseEveryWord is against words of the format that no recording has
// any more, and against recordings that were lost.
func TestRecordingsUseEveryWord(t *testing.T) {
	seen := make(map[string]int)
	for _, f := range recordings(t) {
		for _, c := range f.Cases {
			seen[c.Transport]++
			seen[c.Config]++
			for _, word := range c.Formats {
				seen[word]++
			}
		}
	}
	for _, word := range append([]string{HTTP, WS, Handshake, Start, Election, Document, Timeline, Client, Raft}, configs...) {
		if seen[word] == 0 {
			t.Errorf("no case of %s", word)
		}
	}
	for word := range formats {
		if seen[word] == 0 {
			t.Errorf("no value of the format %s", word)
		}
	}
}
