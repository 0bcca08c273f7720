package document_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/storage/document"
)

// sumsField matches the checksums of a document.
var sumsField = regexp.MustCompile(`,"sums":\{"state":"([0-9a-f]{64})","document":"([0-9a-f]{64})"\}`)

// unsigned returns a document without its checksums.
func unsigned(data []byte) []byte { return sumsField.ReplaceAll(data, nil) }

// TestStateSum checks that a state is compared with its checksum exactly if the document is
// as its writer left it.
func TestStateSum(t *testing.T) {
	v := rich(t).View()
	data := document.Encode(document.Inline(v), header, "a:1", 5)
	var indented bytes.Buffer
	if err := json.Indent(&indented, data, "", "  "); err != nil {
		t.Fatal(err)
	}
	replace := func(old, by string) []byte {
		if n := bytes.Count(data, []byte(old)); n != 1 {
			t.Fatalf("%d times %s", n, old)
		}
		return bytes.Replace(data, []byte(old), []byte(by), 1)
	}
	for name, c := range map[string]struct {
		data     []byte
		compared bool
	}{
		"unchanged":                 {data, true},
		"within a buffer":           {appended(t, v), true},
		"a job edited":              {replace(`"a@example.test"`, `"b@example.test"`), false},
		"a setting edited":          {replace(`"requestCount":`, `"requestCount":1`), false},
		"the state's sum edited":    {sumsField.ReplaceAll(data, fmt.Appendf(nil, `,"sums":{"state":"%064d","document":"$2"}`, 1)), false},
		"written by jq":             {indented.Bytes(), false},
		"a line appended":           {append(bytes.Clone(data), '\n'), false},
		"taken over by an original": {takeOver(t, data, "192.0.2.9:8080", 100_000), false},
		"without sums":              {unsigned(data), false},
	} {
		doc, _ := machine(t, c.data)
		if compared := doc.StateSum != nil; compared != c.compared || compared && *doc.StateSum != v.Hash() {
			t.Errorf("%s: the sum of the state to compare is %x", name, doc.StateSum)
		}
	}
}

// appended returns a document that was appended to other bytes.
func appended(t *testing.T, v *fsm.View) []byte {
	t.Helper()
	data, _ := document.AppendTo([]byte("before"), document.Inline(v), header, "a:1", 5)
	return bytes.TrimPrefix(data, []byte("before"))
}

// TestStateSumOfAnotherState reads documents of a writer for which the same bytes are
// another state, as for a release that reads a field in another way.
func TestStateSumOfAnotherState(t *testing.T) {
	data := document.Encode(document.Inline(rich(t).View()), header, "a:1", 5)
	for old, by := range map[string]string{
		`"priority":-1`: `"priority":-2`, // in the list jobs
		`"lastTurn":`:   `"lastTurn":1`,  // in the header
		`"fired":`:      `"fired":1`,     // in a list after the header
	} {
		if !strings.Contains(string(data), old) {
			t.Fatalf("no %s in %s", old, data)
		}
		doc, err := document.Decode(signed(t, bytes.Replace(data, []byte(old), []byte(by), 1)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := doc.Machine(); !errors.Is(err, fsm.ErrDiverged) || !strings.Contains(err.Error(), "release") {
			t.Errorf("%s for %s: %v", by, old, err)
		}
		doc.StateSum = nil
		if _, err := doc.Machine(); err != nil {
			t.Errorf("%s for %s, accepted: %v", by, old, err)
		}
	}
}

// signed returns a document with the checksum of its own bytes, and the state's as it was.
func signed(t *testing.T, data []byte) []byte {
	t.Helper()
	place := sumsField.FindSubmatchIndex(data)
	if place == nil {
		t.Fatalf("no sums in %s", data)
	}
	from, to := place[4], place[5]
	sum := sha256.Sum256(append(bytes.Clone(data[:from]), data[to:]...))
	return append(hex.AppendEncode(bytes.Clone(data[:from]), sum[:]), data[to:]...)
}

// TestLargeHasNoSums checks that a large document has no checksum of its state, which would
// cost time proportional to the queue at each flush.
func TestLargeHasNoSums(t *testing.T) {
	c := document.Inline(rich(t).View())
	c.Archive, c.InlineMax = archive(), 1
	if data, large := document.AppendTo(nil, c, header, "a:1", 5); !large || bytes.Contains(data, []byte(`"sums"`)) {
		t.Errorf("large %v: %s", large, data)
	}
}

// TestOddSums reads checksums that no writer of this program writes.
func TestOddSums(t *testing.T) {
	some := strings.Repeat("ab", sha256.Size)
	for sums, valid := range map[string]bool{
		`{}`: true, `null`: true,
		fmt.Sprintf(`{"state":%q}`, some):                          true,
		fmt.Sprintf(`{"document":%q}`, some):                       true,
		fmt.Sprintf(`{"document":"\u0061%s"}`, some[1:]):           true,
		fmt.Sprintf(`{"state":%q,"document":null}`, some):          true,
		fmt.Sprintf(`{"state":%q,"document":%[1]q,"new":1}`, some): true,
		`{"state":"ab"}`: false, `{"document":5}`: false, `[]`: false,
	} {
		doc, err := document.Decode([]byte(`{"jobs":[],"osqueue":{"format":1,"sums":` + sums + `}}`))
		if (err == nil) != valid || valid && doc.StateSum != nil {
			t.Errorf("%s: %+v, %v", sums, doc, err)
		}
	}
}
