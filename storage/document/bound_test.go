package document_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/document"
)

// wide returns a state with many records in every list of a document.
func wide(t *testing.T) *fsm.View {
	t.Helper()
	list := func(name, record string) string {
		var b strings.Builder
		for i := 1; i <= 50; i++ {
			record := strings.ReplaceAll(record, "status", `tags":["`+strings.Repeat("x", 300)+`"],"status`)
			b.WriteString(strings.ReplaceAll(record, "#", fmt.Sprint(i)) + ",")
		}
		return `"` + name + `":[` + strings.TrimSuffix(b.String(), ",") + "]"
	}
	_, m := machine(t, []byte(`{"osqueue":{"format":1,"state":{"now":99,"lastToken":99}},`+strings.Join([]string{
		list("jobs", `{"id":"u#","status":"unclaimed","type":"t","group":"g#"}`),
		list("scheduled", `{"id":"s#","status":"scheduled","runAt":999}`),
		list("blocked", `{"id":"b#","status":"blocked","waitsFor":["u1"]}`),
		list("finished", `{"id":"f#","status":"completed","finishedAt":1}`),
		list("dead", `{"id":"d#","status":"dead","finishedAt":1}`),
		list("workers", `{"name":"w#"}`),
		list("claims", `{"worker":"w#","requestId":"r","claimedAt":#,"leases":[{"job":"u1","token":#}]}`),
		list("queues", `{"type":"q#","paused":true}`),
		list("crons", `{"name":"c#","spec":"@hourly","job":{},"nextAt":999}`),
		list("batches", `{"id":"#","total":1,"completed":1,"endedAt":1}`),
		list("holds", `{"type":"t","key":"k#","seq":1,"job":"u1","until":999}`),
		list("requests", `{"key":"q#","at":1,"term":1,"index":#,"code":"duplicate"}`),
	}, ",")+"}"))
	return m.View()
}

// TestGivesUp checks that the encoder stops within the record that exceeds the bound, in
// every list.
func TestGivesUp(t *testing.T) {
	v := wide(t)
	c := document.Inline(v)
	full := document.Encode(c, header, "a:1", 5)
	c.Archive = reaching(v.LSN())
	lists := strings.Fields("jobs scheduled blocked finished dead workers claims queues turns crons batches holds requests")
	begins := make([]int, 0, len(lists)+1)
	for _, list := range lists {
		begins = append(begins, bytes.Index(full, []byte(`"`+list+`":[{`)))
	}
	begins = append(begins, len(full))
	least := document.JobLeast*(5*50) + int(v.Bytes()) // below it the encoder stops before it looks at a job
	tested := 0
	for i, list := range lists {
		const record = 800 // longer than any record, including the header after the first list
		if c.InlineMax = begins[i] + 300; c.InlineMax <= least {
			continue
		}
		tested++
		n, fits := document.TryInline(c, header, "a:1", 5)
		if fits || n <= c.InlineMax || n > c.InlineMax+record {
			t.Errorf("%s: fits %v, %d bytes appended of at most %d", list, fits, n, c.InlineMax)
		}
		if begins[i] < 0 || c.InlineMax+record > begins[i+1] {
			t.Errorf("%s stand from %d to %d: %d is not among them", list, begins[i], begins[i+1], c.InlineMax)
		}
	}
	if tested == 0 {
		t.Errorf("the lower bound %d is behind all lists of %d bytes", least, len(full))
	}
}

// reaching returns an archive that ends at an LSN.
func reaching(end fsm.LSN) *document.Archive {
	return &document.Archive{
		Checkpoint: document.Checkpoint{Key: "base/k", LSN: end},
		Tail:       document.Tail{Run: document.Run{After: end, Last: end}},
	}
}

// TestGivesUpBeforeLooking checks that the encoder does not look at any job of a queue that
// is far too deep.
func TestGivesUpBeforeLooking(t *testing.T) {
	v := hundredThousand()
	c := document.Inline(v)
	c.Archive, c.InlineMax = reaching(v.LSN()), 1<<20
	if n, fits := document.TryInline(c, header, "a:1", 5); fits || n != 0 {
		t.Errorf("fits %v, %d bytes appended", fits, n)
	}
	// The same applies to a queue with few large jobs.
	m := fsm.New()
	apply(t, m, 1, 1, enqueue(newJob("a", `"`+strings.Repeat("x", 1<<20)+`"`)))
	c = document.Inline(m.View())
	c.Archive, c.InlineMax = reaching(m.Meta().LSN), 1<<20
	if n, fits := document.TryInline(c, header, "a:1", 5); fits || n != 0 {
		t.Errorf("fits %v, %d bytes appended", fits, n)
	}
}

// TestBound checks that a state is inline exactly if it takes no more than the bound, or no
// archive can replace it, and that the previous content of the buffer stays unchanged.
func TestBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := randomMachine(t).View()
		c := document.Inline(v)
		plain := document.Encode(c, header, "a:1", 5)
		c.Archive = archiveGen(t, v.LSN())
		for more := -1; more <= 1; more++ {
			c.InlineMax = len(plain) + more
			data, large := document.AppendTo([]byte("before"), c, header, "a:1", 5)
			text, kept := bytes.CutPrefix(data, []byte("before"))
			doc, err := document.Decode(text)
			if err != nil || !kept || large != (more < 0) || doc.Large != large {
				t.Fatalf("%d bytes within %d: large %v, %v in %s", len(plain), c.InlineMax, large, err, data)
			}
		}
		c.Archive, c.InlineMax = nil, 1
		if data, large := document.AppendTo(nil, c, header, "a:1", 5); large || !bytes.Equal(data, plain) {
			t.Fatalf("without an archive: large %v", large)
		}
	})
}

// TestJobLeast checks that the estimate is a lower bound.
func TestJobLeast(t *testing.T) {
	for _, status := range []string{"unclaimed", "dead", "completed", "cancelled"} {
		list := map[string]string{"unclaimed": "jobs", "dead": "dead"}[status]
		if list == "" {
			list = "finished"
		}
		lists := map[string]string{"jobs": "[]"}
		lists[list] = `[{"id":"a","status":"` + status + `"}]`
		text := `{"osqueue":{"format":1}`
		for name, jobs := range lists {
			text += `,"` + name + `":` + jobs
		}
		_, m := machine(t, []byte(text+"}"))
		data := document.Encode(document.Inline(m.View()), document.Header{}, "", 0)
		job := data[bytes.Index(data, []byte(`{"id"`)):]
		if job = job[:bytes.IndexByte(job, '}')+1]; len(job) < document.JobLeast {
			t.Errorf("%s takes %d bytes, less than %d", job, len(job), document.JobLeast)
		}
	}
	rapid.Check(t, func(t *rapid.T) { // odd payloads take at least their length, too
		payload := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.SliceOf(rapid.SampledFrom([]byte(" 1\"\n{}")))).Draw(t, "payload")
		size := func(payload []byte) int {
			m := fsm.New()
			apply(t, m, 1, 1, enqueue(&fsmpb.NewJob{Id: "a", Payload: payload}))
			return len(document.Encode(document.Inline(m.View()), header, "", 0))
		}
		if with, without := size(payload), size(nil); with < without+len(payload) {
			t.Fatalf("%d bytes of payload take %d", len(payload), with-without)
		}
	})
}
