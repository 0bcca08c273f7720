package ui

import (
	"testing"

	v1 "osqueue/client/api/v1"
)

// A browser gets every byte once, although a new leader repeats what the old one had sent.
func TestCutChunk(t *testing.T) {
	at := &v1.JobLogs{Token: 5, Offset: 4}
	for name, c := range map[string]struct {
		chunk v1.LogChunk
		want  string // "" if nothing is left
		from  int64
	}{
		"what follows":      {v1.LogChunk{Token: 5, Offset: 4, Bytes: 3, Text: "two"}, "two", 4},
		"after a loss":      {v1.LogChunk{Token: 5, Offset: 9, Bytes: 3, Text: "two", Lost: 5}, "two", 9},
		"a repetition":      {v1.LogChunk{Token: 5, Bytes: 4, Text: "one "}, "", 0},
		"in part":           {v1.LogChunk{Token: 5, Bytes: 7, Text: "one two"}, "two", 4},
		"encrypted":         {v1.LogChunk{Token: 5, Bytes: 7, Text: "0123456789abcdef"}, "", 0},
		"the next attempt":  {v1.LogChunk{Token: 6, Bytes: 1, Text: "x"}, "x", 0},
		"an attempt before": {v1.LogChunk{Token: 4, Offset: 9, Bytes: 1, Text: "x"}, "", 0},
	} {
		left := cutChunk(&c.chunk, at)
		if left != (c.want != "") || left && (c.chunk.Text != c.want || c.chunk.Offset != c.from || c.chunk.Bytes != int64(len(c.want))) {
			t.Errorf("%s: %v %+v", name, left, c.chunk)
		}
	}
}
