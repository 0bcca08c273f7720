package core

import (
	"net/http"
)

// Writes reports whether a stream carries calls of the route: reads are few, and their answers can be large or endless.
func (rt *Route) Writes() bool {
	return rt.At == LeaderOnly || rt.At == InMemory && rt.Method != http.MethodGet
}

func First(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
