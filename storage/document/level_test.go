package document_test

import (
	"testing"

	"osqueue/fsm"
	"osqueue/storage/document"
)

// TestLevelOfADocument checks that a document restores the level, and that a legacy
// document has the first one.
func TestLevelOfADocument(t *testing.T) {
	v := fsm.New().View()
	for _, data := range [][]byte{
		document.Encode(&document.Content{Meta: v.Meta(), State: v}, document.Header{}, "", 0),
		[]byte(`{"jobs":[],"brokerHeartbeat":0,"broker":null}`),
	} {
		doc, err := document.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := doc.Machine(); err != nil || m.Level() != fsm.BaseLevel {
			t.Errorf("%s: %v, level %d", data, err, m.Level())
		}
	}
}
