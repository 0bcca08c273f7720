package osqueue

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/compat"
)

// textOf formats values as JavaScript's String() does.
func TestTextOf(t *testing.T) {
	for in, want := range map[string]string{
		`"text"`:                       "text",
		`"q\"\u00e9\n"`:                "q\"é\n",
		`"\ud800"`:                     "\ufffd",
		`5`:                            "5",
		`-0`:                           "0",
		`0.0`:                          "0",
		`1.0`:                          "1",
		`1.50`:                         "1.5",
		`-2.25`:                        "-2.25",
		`1e3`:                          "1000",
		`1e21`:                         "1e+21",
		`123456789012345680000`:        "123456789012345680000",
		`1234567890123456789012`:       "1.2345678901234568e+21",
		`1e-7`:                         "1e-7",
		`0.000001`:                     "0.000001",
		`1e400`:                        "Infinity",
		`-1e400`:                       "-Infinity",
		`true`:                         "true",
		`false`:                        "false",
		`null`:                         "null",
		`{}`:                           "[object Object]",
		`{"a":1}`:                      "[object Object]",
		`[]`:                           "",
		`[1,"a",[2,[3]],null,{},true]`: "1,a,2,3,,[object Object],true",
		`[null]`:                       "",
	} {
		if got := textOf(jsontext.Value(in), 100); got != want {
			t.Errorf("%s is %q, want %q", in, got, want)
		}
	}
}

// A text beyond the limit is not written out, and a deep value takes no longer than a
// flat one.
func TestTextOfIsBounded(t *testing.T) {
	many := jsontext.Value("[" + strings.Repeat("{},", 1<<18) + "{}]")
	if got := textOf(many, 100); len(got) < 100 || len(got) > 200 {
		t.Errorf("%d bytes", len(got))
	}
	const depth = 9000
	deep := jsontext.Value(strings.Repeat("[", depth) + strings.Repeat(`"",`, 1<<18) + `"x"` + strings.Repeat("]", depth))
	began := time.Now()
	if got := textOf(deep, len(deep)); got != strings.Repeat(",", 1<<18)+"x" {
		t.Errorf("%d bytes", len(got))
	}
	// Reading the rest again at each level took minutes.
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestParseMessage(t *testing.T) {
	for in, want := range map[string]struct{ id, method string }{
		`{"id":"1","method":"getStats"}`:                     {`"1"`, "getStats"},
		`{"id":7,"method":"getStats","params":null}`:         {`7`, "getStats"},
		` {"id" : 1.50 , "method":"m" } `:                    {`1.50`, "m"},
		`{"id":{"a":[1]},"method":"m"}`:                      {`{"a":[1]}`, "m"},
		`{"id":false,"method":"m"}`:                          {`false`, "m"},
		`{"id":"","method":"m"}`:                             {`""`, "m"},
		`{"id":0,"method":"m"}`:                              {`0`, "m"},
		`{"id":null,"method":"m"}`:                           {`null`, "m"},
		`{"method":"m"}`:                                     {`null`, "m"},
		`{"id":"1"}`:                                         {`"1"`, "undefined"},
		`{"id":"1","method":null}`:                           {`"1"`, "null"},
		`{"id":"1","method":5}`:                              {`"1"`, "5"},
		`{"id":"1","method":["getStats"]}`:                   {`"1"`, "getStats"},
		`{"id":"1","method":{}}`:                             {`"1"`, "[object Object]"},
		`{"id":"1","ID":"2","Method":"x","METHOD":"y"}`:      {`"1"`, "undefined"},
		`{"id":"1","id":"2","method":"a","method":"b"}`:      {`"2"`, "b"},
		`{"id":"1","method":"m","params":"abc"}`:             {`"1"`, "m"},
		`{"id":"1","method":"m","params":[{"jobId":1}]}`:     {`"1"`, "m"},
		`{"jsonrpc":"2.0","id":"1","method":"m","trace":[]}`: {`"1"`, "m"},
		"{\"id\":\"\xff\",\"method\":\"\xffm\"}":             {"\"\ufffd\"", "\ufffdm"},
		`null`:                                               {`null`, "undefined"},
		`[]`:                                                 {`null`, "undefined"},
		`"x"`:                                                {`null`, "undefined"},
		`5`:                                                  {`null`, "undefined"},
		` [ {} ] `:                                           {`null`, "undefined"},
	} {
		m, err := parseMessage([]byte(in))
		if err != nil || string(m.id) != want.id || m.method != want.method {
			t.Errorf("%s: id %s, method %q, %v", in, m.id, m.method, err)
		}
	}
	for _, in := range []string{``, ` `, `{`, `{"id":"1",`, `{"id":1}}`, `{"id":1} {"id":2}`, `{id:1}`, `nul`, `{"id":01}`, "\x00", "\ufeff{}"} {
		if m, err := parseMessage([]byte(in)); !errors.Is(err, errInvalidJSON) {
			t.Errorf("%q: %+v, %v", in, m, err)
		}
	}
}

// Only a JSON string names a method.
func TestMethodMustBeText(t *testing.T) {
	m, err := parseMessage([]byte(`{"method":["getStats"]}`))
	if err != nil || m.named {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err = parseMessage([]byte(`{"method":"getStats"}`)); err != nil || !m.named {
		t.Errorf("%+v, %v", m, err)
	}
	if m, _ = parseMessage([]byte(`{"method":"` + strings.Repeat("é", methodMax) + `"}`)); len(m.method) > methodMax {
		t.Errorf("the name has %d bytes", len(m.method))
	}
}

func paramsOf(t *testing.T, in string) params {
	t.Helper()
	m, err := parseMessage([]byte(`{"method":"m","params":` + in + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return m.params
}

func TestSubmissionIsCoerced(t *testing.T) {
	number := func(f float64) *float64 { return &f }
	for in, want := range map[string]submission{
		`{}`:                              {},
		`null`:                            {},
		`"abc"`:                           {},
		`{"payload":null}`:                {payload: jsontext.Value("null")},
		`{"payload":{"a":[1]}}`:           {payload: jsontext.Value(`{"a":[1]}`)},
		`{"type":"mail"}`:                 {jobType: "mail"},
		`{"type":""}`:                     {},
		`{"type":5}`:                      {},
		`{"type":["mail"]}`:               {},
		`{"type":null}`:                   {},
		`{"maxAttempts":3}`:               {maxAttempts: number(3)},
		`{"maxAttempts":0}`:               {maxAttempts: number(0)},
		`{"maxAttempts":1.5}`:             {maxAttempts: number(1.5)},
		`{"maxAttempts":"3"}`:             {},
		`{"maxAttempts":true}`:            {},
		`{"maxAttempts":null}`:            {},
		`{"Type":"x","payLoad":1,"id":2}`: {},
	} {
		p := paramsOf(t, in)
		if got := p.submission(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", in, got, want)
		}
	}
}

func TestNamesAndFiltersAreCoerced(t *testing.T) {
	for in, want := range map[string]string{
		`{}`: "", `{"workerId":null}`: "", `{"workerId":""}`: "", `{"workerId":5}`: "5", `{"workerId":false}`: "false",
		`{"workerId":[1,2]}`: "1,2", `{"workerId":{}}`: "[object Object]", `{"workerId":"w"}`: "w",
	} {
		p := paramsOf(t, in)
		if got := nameOf(p.WorkerID, nameBytes); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string][]string{
		`{}`: nil, `{"types":null}`: nil, `{"types":{}}`: nil, `{"types":{"length":1}}`: nil, `{"types":"mail"}`: nil, `{"types":5}`: nil,
		`{"types":[]}`: nil, `{"types":["a","a",""]}`: {"a"}, `{"types":[1,true,null,["x"],1.0]}`: {"1", "true", "x"},
		`{"types":[""]}`: matchesNone, `{"types":[null]}`: matchesNone, `{"types":["a\u0000"]}`: matchesNone,
		`{"types":["` + strings.Repeat("x", nameBytes+1) + `","b"]}`: {"b"},
	} {
		p := paramsOf(t, in)
		if got := p.filter(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

// Rounding does not change the number of attempts that a job may have.
func TestAttempts(t *testing.T) {
	for in, want := range map[float64]int32{3: 3, 0: 0, 1.5: 2, 0.1: 1, -1: 0, -1.5: 0, 2147483647: 2147483647, 2147483648: 2147483647, 1e300: 2147483647} {
		if got := attempts(&in); *got != want {
			t.Errorf("%v is %d, want %d", in, *got, want)
		}
	}
	if attempts(nil) != nil {
		t.Error("none is some")
	}
}

// The answer to any input is JSON with the id of the request.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		`{"id":"1","method":"submitJob","params":{"payload":{"a":1},"type":"t","maxAttempts":3}}`,
		`{"id":7,"method":"claimJob","params":{"workerId":5,"types":[1,null,"x",[2]]}}`,
		`{"id":{"a":[1]},"method":["getStats"],"params":"x"}`, `null`, `[]`, `"\ud800"`, `{"id":1e400}`, "{\"id\":\"\xff\"}", `{`,
		`{"id":"1","id":2,"method":"m"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		m, err := parseMessage(raw)
		if !bytes.Equal(raw, before) {
			t.Fatal("the message was changed")
		}
		if (err != nil) == jsontext.Value(validText(raw)).IsValid(compat.Lenient) {
			t.Fatalf("%q: %v", raw, err)
		}
		if len(m.method) > methodMax || !m.id.IsValid(compat.Lenient) {
			t.Fatalf("%q: id %q, method %q", raw, m.id, m.method)
		}
		p := m.params
		if in := p.submission(); in.maxAttempts != nil && *attempts(in.maxAttempts) < 0 {
			t.Fatalf("%q: %v attempts", raw, *attempts(in.maxAttempts))
		}
		_, _, _ = nameOf(p.WorkerID, nameBytes), nameOf(p.JobID, idMax), p.filter()
		var answer struct {
			ID    jsontext.Value `json:"id"`
			OK    *bool          `json:"ok"`
			Error tagged         `json:"error"`
		}
		sent := refusal(m.id, protocolError, "Unsupported WS method: "+m.method)
		if err := json.Unmarshal(sent, &answer, compat.Lenient, json.RejectUnknownMembers(true)); err != nil || answer.OK == nil || *answer.OK {
			t.Fatalf("%q: answered %q: %v", raw, sent, err)
		}
		want := m.id.Clone()
		if err := want.Compact(compat.Lenient); err != nil || !bytes.Equal(answer.ID, want) {
			t.Fatalf("%q: the id in the answer is %q, %v", raw, answer.ID, err)
		}
	})
}
