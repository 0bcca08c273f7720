package document_test

import (
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/document"
)

// TestLevelOfADocument checks that older versions can read a document of the checkpoint level,
// and that a document of a higher level has a format that they refuse and restores the
// level.
func TestLevelOfADocument(t *testing.T) {
	for level, format := range map[uint32]string{fsm.BaseLevel: `"format":1,`, fsm.Level7: `"format":3,`} {
		m, b := fsm.New(), &fsmpb.Batch{Version: level, NowMs: 1}
		if level > fsm.BaseLevel {
			b.Mutations = []*fsmpb.Mutation{{Op: &fsmpb.Mutation_RaiseLevel{RaiseLevel: &fsmpb.RaiseLevel{Level: level}}}}
		}
		m.Apply(1, 1, b)
		v := m.View()
		data := document.Encode(&document.Content{Meta: v.Meta(), State: v}, document.Header{}, "", 0)
		if !strings.Contains(string(data), format) || strings.Contains(string(data), `"level"`) != (level > fsm.BaseLevel) {
			t.Errorf("level %d: %s", level, data)
		}
		doc, err := document.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		back, err := doc.Machine()
		if err != nil {
			t.Fatal(err)
		}
		if doc.Large || back.Level() != level || back.View().Hash() != v.Hash() {
			t.Errorf("level %d came back as %d, large %v", level, back.Level(), doc.Large)
		}
	}
}
