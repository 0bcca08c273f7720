package jobs

import (
	"slices"

	"osqueue/fsm"
)

// SearchMax bounds the text that a list looks for.
const SearchMax = 256

// found reports whether the id, the type, a tag, the last error or the payload of j contains
// text. Letters of ASCII match in either case. A payload is compared as the JSON that it is.
func found(j *fsm.Job, text string) bool {
	o := j.Options()
	return containsFold(j.ID, text) || containsFold(j.Type, text) ||
		slices.ContainsFunc(o.Tags, func(tag string) bool { return containsFold(tag, text) }) ||
		containsFold(j.Execution().LastError, text) || containsFold(j.Payload(), text)
}

// containsFold reports whether hay contains text, which is not empty. It allocates nothing,
// because hay may be a payload of megabytes.
func containsFold[T string | []byte](hay T, text string) bool {
	first := lower(text[0])
	for i := 0; i+len(text) <= len(hay); i++ {
		if lower(hay[i]) == first && foldEqual(hay[i:i+len(text)], text) {
			return true
		}
	}
	return false
}

func foldEqual[T string | []byte](a T, b string) bool {
	for i := range len(b) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
