package document_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/storage/document"
)

func TestDecodeErrors(t *testing.T) {
	head := func(members string) string {
		return `{"osqueue":{"format":1,"lineage":"l","term":1,"index":2},"tail":{"after":"0-0","last":"1-2","entries":1,"zstd":"AA=="}` + members + `}`
	}
	decode(t, []byte(head("")))
	for _, c := range []struct{ text, want string }{
		{``, "the document is empty"},
		{"\n", "the document is empty"},
		{`null`, "must be an object, not null"},
		{`[]`, "must be an object, not an array"},
		{`{`, "unexpected EOF"},
		{`{"jobs":[`, "unexpected EOF"},
		{`{"jobs":[]`, "unexpected EOF"},
		{`{"jobs":[],}`, "invalid character"},
		{`{} {}`, "trailing data"},
		{`{}x`, "invalid character"},
		{`{"jobs":{}}`, "at /jobs"},
		{`{"jobs":[],"jobs":[]}`, `"jobs" occurs twice`},
		{`{"broker":null,"broker":null}`, `"broker" occurs twice`},
		{`{"name":"app","version":"1.0"}`, "not a queue document"},
		{head(`,"broker":5`), "at /broker"},
		{head(`,"brokerHeartbeat":true`), "at /brokerHeartbeat"},
		{head(`,"completedTotal":-1`), "at /completedTotal"},
		{head(`,"checkpoint":5`), "at /checkpoint"},
		{head(`,"checkpoint":{"key":"k","lsn":"1-1","sha256":"abc"}`), "SHA-256 in hex"},
		{head(`,"checkpoint":{"key":"k","lsn":"one"}`), "not an LSN"},
		{head(`,"checkpoint":{"key":"k","lsn":"1-1"}`), "at /tail"},
		{head(`,"log":{}`), "at /log"},
		{head(`,"log":[{"key":"k","after":"0-0","last":"1-1","entries":1}]`), "at /tail"},
		{`{"osqueue":"gone","jobs":[]}`, "at /osqueue"},
		{`{"osqueue":{},"jobs":[]}`, "the document has format 0"},
		{`{"osqueue":{"format":2},"jobs":[]}`, "the document has format 2"},
		{`{"osqueue":{"format":1,"level":1000}}`, "the document has feature level 1000"},
		{`{"osqueue":{"format":1},"jobs":[]}`, "no tail"},
		{`{"osqueue":{"format":1,"epoch":-1},"tail":{"after":"0-0","last":"0-0"}}`, "at /osqueue"},
		{`{"osqueue":{"format":1,"term":1,"index":3},"tail":{"after":"0-0","last":"1-2","entries":1,"zstd":"AA=="}}`, "but the archive ends at 1-2"},
	} {
		_, err := document.Decode([]byte(c.text))
		if !errors.Is(err, document.ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Decode(%s)\n  says %v\n  want %q", c.text, err, c.want)
		}
	}
}

// replaced returns a document of this program with one part replaced.
func replaced(t *testing.T, old, text string) []byte {
	t.Helper()
	data := document.Encode(contentOf(queue(t).View()), header, address, heartbeat)
	if bytes.Count(data, []byte(old)) != 1 {
		t.Fatalf("not once: %s in %s", old, data)
	}
	return bytes.Replace(data, []byte(old), []byte(text), 1)
}

// TestEdits checks which documents are edits, and which jobs may have been added.
func TestEdits(t *testing.T) {
	const added = `"jobs":[{"id":"new","status":"unclaimed","type":7,"payload":{"x": 1},"maxAttempts":"4"},`
	for name, c := range map[string]struct {
		old, text string
		ids       string // of the view
	}{
		"a job":                {`"jobs":[`, added, "new a b c\ufffd"},
		"a running job":        {`"jobs":[`, `"jobs":[{"id":"new","status":"in_progress"},`, "new a b c\ufffd"},
		"an ended job":         {`"jobs":[`, `"jobs":[{"id":"new","status":"completed"},`, "a b c\ufffd"},
		"a job without id":     {`"jobs":[`, `"jobs":[{"status":"unclaimed"},`, "a b c\ufffd"},
		"no jobs":              {`"jobs":[`, `"jobs":[5,null,"x",{"id":[]},`, "a b c\ufffd"},
		"a changed job":        {`"type":"mail"`, `"type":"post"`, "a b c\ufffd"},
		"white space":          {`"jobs":[`, `"jobs":[ `, "a b c\ufffd"},
		"an unknown field":     {`{"broker"`, `{"team":1,"broker"`, "a b c\ufffd"},
		"no list of jobs":      {`"jobs":[`, `"jobs":null,"old":[`, ""},
		"a list for an object": {`"jobs":[`, `"jobs":{"x":1},"old":[`, ""},
	} {
		d := decode(t, replaced(t, c.old, c.text))
		var ids []string
		for _, j := range d.View {
			ids = append(ids, j.ID)
		}
		if !d.Edited || d.Overtaken || strings.Join(ids, " ") != c.ids || d.LSN() != queue(t).LSN() {
			t.Errorf("%s: edited %v, jobs %q, want %q", name, d.Edited, ids, c.ids)
		}
	}
	j := decode(t, replaced(t, `"jobs":[`, added)).View[0]
	if j.Type != "7" || string(j.Payload()) != `{"x": 1}` || j.MaxAttempts != 4 || j.Status != fsm.Unclaimed {
		t.Errorf("%+v", j)
	}
}

// TestOvertaken checks that a broker that registers is noticed, and that the state stays that of
// the archive.
func TestOvertaken(t *testing.T) {
	for name, data := range map[string][]byte{
		"another broker":  replaced(t, `"broker":"`+address+`"`, `"broker":"192.0.2.9:80"`),
		"none":            replaced(t, `"broker":"`+address+`"`, `"broker":null`),
		"another beat":    replaced(t, fmt.Sprintf(`"brokerHeartbeat":%d`, heartbeat), `"brokerHeartbeat":5`),
		"and another job": bytes.Replace(replaced(t, `"broker":"`+address+`"`, `"broker":null`), []byte(`"jobs":[`), []byte(`"jobs":[{"id":"x","status":"unclaimed"},`), 1),
	} {
		d := decode(t, data)
		if edited := name == "and another job"; !d.Overtaken || d.Edited != edited || len(d.View) > 0 != edited || d.Fence().Timeout != 0 {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// TestHandedOver checks the list of handovers after a takeover.
func TestHandedOver(t *testing.T) {
	d := decode(t, replaced(t, `"node":"n1"`, `"node":"n2"`))
	got := d.HandedOver("next")
	if len(got) != 2 || got[0] != header.Handovers[0] || got[1].Cluster != "cl" || got[1].LSN() != d.LSN() || got[1].LastSeq != d.Header.LastSeq {
		t.Errorf("%+v", got)
	}
	if got := d.HandedOver("cl"); len(got) != 1 {
		t.Errorf("by its own cluster: %+v", got)
	}
	if got := d.HandedOver("before"); len(got) != 1 || got[0].Cluster != "cl" {
		t.Errorf("back: %+v", got)
	}
	if o, ok := d.Header.Handover("before"); !ok || o != header.Handovers[0] {
		t.Errorf("%+v", o)
	}
}

// TestRelease checks that a released document has no broker and the same content.
func TestRelease(t *testing.T) {
	for _, text := range []string{
		string(document.Encode(contentOf(queue(t).View()), header, address, heartbeat)),
		`{"jobs":[ {"id":"a","status":"unclaimed","broker":"x"}],"broker" : "b","brokerHeartbeat":5}`,
		`{"broker":{"broker":"x"},"brokerHeartbeat":5}`,
	} {
		out, err := document.Release([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		before, after := decode(t, []byte(text)), decode(t, out)
		if after.Broker != nil || after.Overtaken || after.Edited || after.LSN() != before.LSN() || after.BrokerHeartbeat != before.BrokerHeartbeat {
			t.Errorf("%s\nbecame\n%s", text, out)
		}
		if again, err := document.Release(out); err != nil || !bytes.Equal(again, out) {
			t.Errorf("twice: %s, %v", again, err)
		}
	}
	if _, err := document.Release([]byte("{")); !errors.Is(err, document.ErrFormat) {
		t.Errorf("%v", err)
	}
}

// FuzzDecode checks that Decode never fails in another way, that a legacy document always has a
// machine, and that a release keeps what it says.
func FuzzDecode(f *testing.F) {
	f.Add(document.Encode(contentOf(queue(f).View()), header, address, heartbeat))
	f.Add([]byte(`{"jobs":[{"id":"a","status":"unclaimed","payload":1},{"id":"a"},5],"broker":"b","brokerHeartbeat":"7"}`))
	f.Add([]byte(`{"osqueue":{"format":1,"term":1,"index":2},"tail":{"after":"0-0","last":"1-2","entries":1,"zstd":"AA=="},"jobs":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := document.Decode(data)
		if err != nil {
			if !errors.Is(err, document.ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		if d.Header == nil {
			if _, err := d.Legacy(); err != nil {
				t.Fatal(err)
			}
		} else if err := d.Archive.Check(); err != nil {
			t.Fatal(err)
		}
		out, err := document.Release(data)
		if err != nil {
			t.Fatal(err)
		}
		after, err := document.Decode(out)
		if err != nil || after.Broker != nil || after.LSN() != d.LSN() || after.Edited != d.Edited {
			t.Fatalf("%v: %q became %q", err, data, out)
		}
	})
}
