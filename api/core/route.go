package core

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	v1 "osqueue/client/api/v1"
)

// targetMax bounds the part of an unknown path that the answer repeats.
const targetMax = 1024

// NoSuchRoute refuses a call as the legacy broker does.
func (c *Call) NoSuchRoute() error {
	target := c.Path
	if c.RawQuery != "" {
		target += "?" + c.RawQuery
	}
	if len(target) > targetMax {
		target = target[:targetMax]
	}
	return Fail(NoRoute, "Route %s:%s not found", c.Method, strings.ToValidUTF8(target, ""))
}

// PathText returns the path as people read it.
func (c *Call) PathText() string {
	if text, err := url.PathUnescape(c.Path); err == nil {
		return text
	}
	return c.Path
}

// KnownMethods are the methods that a route can have, in the order of the Allow
// header.
var KnownMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
}

// checkKnown refuses unknown query parameters under strict handling.
func (c *Call) checkKnown() error {
	if !c.Strict {
		return nil
	}
	var unknown []string
	for name := range c.Params {
		if !c.Route.knows(name) {
			unknown = append(unknown, Shown(name))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	unknown = unknown[:min(len(unknown), UnknownMax)]
	f := Fail(unknownMember, "unknown query parameters: %s", strings.Join(unknown, ", "))
	f.Members = unknown
	return f
}

var (
	ReadParams  = []string{v1.ParamConsistency, v1.ParamMinLSN, v1.ParamWaitMs}
	WriteParams = []string{v1.ParamAck, v1.ParamAckWaitMs}
)

// knows reports whether the route uses a parameter.
func (rt *Route) knows(name string) bool {
	common := ReadParams
	switch rt.At {
	case LeaderOnly:
		common = WriteParams
	case InMemory:
		common = nil
	case AnyNode, UpToDate:
	}
	return slices.Contains(common, name) || rt.Past && name == v1.ParamAt || slices.Contains(rt.Params, name)
}

func ByID(path string) string   { return path + "/{id}" }
func ByName(path string) string { return path + "/{name}" }
func ByType(path string) string { return path + "/{type}" }

func First(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
