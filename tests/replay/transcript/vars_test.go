package transcript

import (
	"strings"
	"testing"
)

func TestVars(t *testing.T) {
	vars := Vars{"t1": "a", "t10": "b", "n": Number("7"), "list": []any{nil}}
	for _, c := range []struct{ in, want string }{
		{`"/task/$t10/$t1"`, `"/task/b/a"`},
		{`{"x":["$n","$n+5","$n-60000","n=$n"],"y":"$list"}`, `{"x":[7,12,-59993,"n=7"],"y":[null]}`},
		{`"$ 5"`, `"$ 5"`},
		{`"$t2"`, ``},
		{`"/x/$t2"`, ``},
		{`"$t1+1"`, ``},
		{`[{"a":"$none"}]`, ``},
	} {
		in, err := Decode([]byte(c.in))
		if err != nil {
			t.Fatal(err)
		}
		got, err := vars.Value(in)
		if (err != nil) != (c.want == "") || err == nil && string(Encode(got)) != c.want {
			t.Errorf("%s became %s, %v", c.in, Encode(got), err)
		}
	}
	if _, err := (Vars{"x": Number("1.5")}).reference("$x+1"); err == nil {
		t.Error("a fraction was added to")
	}
}

func TestBodies(t *testing.T) {
	for _, c := range []struct {
		request string
		want    string
		there   bool
	}{
		{``, ``, false},
		{`,"body":{ "b": 1, "a": 1.0 }`, `{ "b": 1, "a": 1.0 }`, true}, // as it was written
		{`,"body":{"b":1,"a":"$id"}`, `{"a":"j","b":1}`, true},
		{`,"body":null`, `null`, true},
		{`,"bodyText":""`, ``, true},
		{`,"bodyText":"{$id"`, `{j`, true},
		{`,"bodyBase64":"AP8="`, "\x00\xff", true},
		{`,"bodyGen":{"prefix":"<","unit":"ab","count":3,"suffix":">"}`, `<ababab>`, true},
		{`,"proto":{"message":"HeartbeatRequest","fields":{"jobId":"$id","workerId":"w"}},"bodyBase64":"AA=="`, "\x0a\x01j\x12\x01w", true},
		{`,"envelope":true,"proto":{"message":"HeartbeatRequest","fields":{}}`, "\x00\x00\x00\x00\x00", true},
	} {
		r := one(t, `{"name":"n","seq":"s","request":{"method":"POST","path":"/x"`+c.request+`},"response":{"status":200}}`).HTTPRequest
		got, there, err := r.Bytes(Vars{"id": "j"})
		if err != nil || there != c.there || string(got) != c.want {
			t.Errorf("%s: %q, %v, %v", c.request, got, there, err)
		}
	}
}

func TestCanonicalNumbers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"0", "-0.0e9", true},
		{"100", "1E+2", true},
		{"0.10", "1e-1", true},
		{"-5", "-50e-1", true},
		{"1e400", "10e399", true},
		{"1", "-1", false},
		{"1", "10", false},
		{"0.1", "0.01", false},
		{"12345678901234567890", "12345678901234567891", false},
		{"1e99999999999999999999", "1e99999999999999999998", false},
	} {
		if got := Number(c.a).canonical() == Number(c.b).canonical(); got != c.same {
			t.Errorf("%s and %s are the same: %v", c.a, c.b, got)
		}
	}
}

func TestDifferencesAreShort(t *testing.T) {
	c := one(t, `{"name":"n","seq":"s","request":{"method":"GET","path":"/x"},"response":{"status":200,"body":"a"}}`)
	d := c.CheckHTTP(answer(200, `"`+strings.Repeat("x", 1<<20)+`"`), nil)
	if d == nil || len(d.String()) > 500 {
		t.Fatalf("%v", d)
	}
}
