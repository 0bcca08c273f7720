package v1

import "strings"

// HeaderTraceparent is the header of jobs, and of requests, with the context of a trace, as the
// W3C defines it: 00-TRACE-SPAN-FLAGS.
const HeaderTraceparent = "traceparent"

// TraceID returns the id of the trace in a traceparent, or "" if the text is none.
func TraceID(traceparent string) string {
	const pattern = "vv-tttttttttttttttttttttttttttttttt-ssssssssssssssss-ff"
	if len(traceparent) != len(pattern) {
		return ""
	}
	for i, c := range []byte(traceparent) {
		hex := c >= '0' && c <= '9' || c >= 'a' && c <= 'f'
		if dash := pattern[i] == '-'; dash != (c == '-') || !dash && !hex {
			return ""
		}
	}
	id := traceparent[3:35]
	if strings.Trim(id, "0") == "" {
		return ""
	}
	return id
}
