package transcript

import (
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
)

// transportHeaders are headers of a connection or a moment, not of the answer. The server may
// or may not compress an answer; the players decompress it.
var transportHeaders = []string{
	"connection", "content-encoding", "content-length", "date", "keep-alive", "transfer-encoding",
}

// openLists are headers whose value is a list that may have more names than the recorded ones:
// additional names do no harm.
var openLists = []string{"access-control-expose-headers", "vary"}

// closedLists are headers whose value is a list in any order.
var closedLists = []string{"access-control-allow-headers", "access-control-allow-methods", "allow"}

// compareHeaders compares the answer's headers with the recorded ones. Other headers are
// allowed.
func compareHeaders(want map[string]string, got http.Header) *Difference {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		lower := strings.ToLower(name)
		if slices.Contains(transportHeaders, lower) {
			continue
		}
		values := got.Values(name)
		if !sameHeader(lower, want[name], values) {
			text := "none"
			if len(values) > 0 {
				text = clip(strings.Join(values, ", "))
			}
			return &Difference{"header " + lower, want[name], text}
		}
	}
	return nil
}

func sameHeader(name, want string, got []string) bool {
	switch {
	case len(got) == 0:
		return false
	case slices.Contains(openLists, name):
		return subset(listOf(want), listOf(got...))
	case slices.Contains(closedLists, name):
		w, g := listOf(want), listOf(got...)
		return subset(w, g) && subset(g, w)
	case len(got) > 1:
		return false
	case name == "content-type":
		return sameMediaType(want, got[0])
	case name == "upgrade":
		return strings.EqualFold(want, got[0])
	default:
		return want == got[0]
	}
}

// sameMediaType compares the type, and the parameters of the recording. An additional charset
// UTF-8 is allowed, because JSON is always UTF-8.
func sameMediaType(want, got string) bool {
	wantType, wantParams, err := mime.ParseMediaType(want)
	if err != nil {
		return want == got
	}
	gotType, gotParams, err := mime.ParseMediaType(got)
	if err != nil || gotType != wantType {
		return false
	}
	for name, value := range gotParams {
		if w, ok := wantParams[name]; !strings.EqualFold(w, value) && (ok || name != "charset" || !strings.EqualFold(value, "utf-8")) {
			return false
		}
	}
	for name := range wantParams {
		if _, ok := gotParams[name]; !ok {
			return false
		}
	}
	return true
}

// listOf returns the elements of lists, in lower case.
func listOf(values ...string) []string {
	var out []string
	for _, value := range values {
		for element := range strings.SplitSeq(value, ",") {
			if element = strings.ToLower(strings.TrimSpace(element)); element != "" {
				out = append(out, element)
			}
		}
	}
	return out
}

func subset(part, whole []string) bool {
	return !slices.ContainsFunc(part, func(s string) bool { return !slices.Contains(whole, s) })
}
