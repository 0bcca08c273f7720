package tracing

import (
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/encoding/protowire"
)

// span is a span that has ended.
type span struct {
	verb, jobType string // together the name
	own, parent   trace.SpanContext
	kind          trace.SpanKind
	began, ended  time.Time
	attributes    []attribute.KeyValue
	links         []trace.SpanContext
	failure       string // "" without one
}

// Fields of opentelemetry.proto.trace.v1 and of the messages that it uses. Structs and
// proto.Marshal took three times as long, much of it for garbage.
const (
	requestResourceSpans = 1
	resourceSpansFrom    = 1
	resourceSpansScopes  = 2
	scopeSpansScope      = 1
	scopeSpansSpans      = 2
	resourceAttributes   = 1
	scopeName            = 1

	spanTraceID    = 1
	spanID         = 2
	spanTraceState = 3
	spanParentID   = 4
	spanName       = 5
	spanKind       = 6
	spanStart      = 7
	spanEnd        = 8
	spanAttributes = 9
	spanLinks      = 13
	spanStatus     = 15
	spanFlags      = 16

	linkTraceID = 1
	linkSpanID  = 2
	linkFlags   = 6

	statusMessage = 2
	statusCode    = 3
	statusError   = 2 // a value of statusCode

	keyValueKey   = 1
	keyValueValue = 2
	anyString     = 1
	anyInt        = 3

	flagRemoteKnown = 0x100
	flagRemote      = 0x200
)

// appendSpan appends a span as an element of ScopeSpans.
func appendSpan(b []byte, s *span) []byte {
	return message(b, scopeSpansSpans, func(b []byte) []byte {
		b = appendIDs(b, s.own)
		if state := s.own.TraceState(); state.Len() > 0 {
			b = text(b, spanTraceState, state.String())
		}
		if parent := s.parent.SpanID(); parent.IsValid() {
			b = bytesOf(b, spanParentID, parent[:])
		}
		b = message(b, spanName, func(b []byte) []byte { return append(append(b, s.verb...), valid(s.jobType)...) })
		b = number(b, spanKind, uint64(s.kind)) // has the values of the protocol
		b = timestamp(b, spanStart, s.began)
		b = timestamp(b, spanEnd, s.ended)
		for _, kv := range s.attributes {
			b = appendAttribute(b, spanAttributes, kv)
		}
		for _, l := range s.links {
			b = message(b, spanLinks, func(b []byte) []byte { return appendFlags(appendIDs(b, l), linkFlags, l, l) })
		}
		if s.failure != "" {
			b = message(b, spanStatus, func(b []byte) []byte {
				return number(text(b, statusMessage, s.failure), statusCode, statusError)
			})
		}
		return appendFlags(b, spanFlags, s.own, s.parent)
	})
}

// appendHead appends what stands before the spans in an ExportTraceServiceRequest. appendSpan
// appends the spans, of size bytes.
func appendHead(b []byte, of *resource.Resource, size int) []byte {
	from := message(nil, resourceSpansFrom, func(b []byte) []byte {
		for _, kv := range of.Attributes() {
			b = appendAttribute(b, resourceAttributes, kv)
		}
		return b
	})
	scope := message(nil, scopeSpansScope, func(b []byte) []byte { return text(b, scopeName, "osqueue/api/tracing") })
	scoped := len(scope) + size
	all := len(from) + protowire.SizeTag(resourceSpansScopes) + protowire.SizeBytes(scoped)
	b = protowire.AppendVarint(protowire.AppendTag(b, requestResourceSpans, protowire.BytesType), uint64(all))
	b = append(b, from...)
	b = protowire.AppendVarint(protowire.AppendTag(b, resourceSpansScopes, protowire.BytesType), uint64(scoped))
	return append(b, scope...)
}

// appendIDs appends the first two fields of a span, which are those of a link.
func appendIDs(b []byte, sc trace.SpanContext) []byte {
	traceID, id := sc.TraceID(), sc.SpanID()
	return bytesOf(bytesOf(b, spanTraceID, traceID[:]), spanID, id[:])
}

// appendFlags appends the flags of a context, and whether another one is of another process.
func appendFlags(b []byte, field protowire.Number, sc, other trace.SpanContext) []byte {
	flags := uint32(sc.TraceFlags()) | flagRemoteKnown
	if other.IsRemote() {
		flags |= flagRemote
	}
	return protowire.AppendFixed32(protowire.AppendTag(b, field, protowire.Fixed32Type), flags)
}

// appendAttribute appends a KeyValue whose value is a text or a whole number.
func appendAttribute(b []byte, field protowire.Number, kv attribute.KeyValue) []byte {
	if kv.Value.Type() == attribute.INT64 {
		n := uint64(kv.Value.AsInt64())
		b = appendKey(b, field, kv.Key, protowire.SizeTag(anyInt)+protowire.SizeVarint(n))
		return number(b, anyInt, n)
	}
	s := valid(kv.Value.AsString())
	b = appendKey(b, field, kv.Key, protowire.SizeTag(anyString)+protowire.SizeBytes(len(s)))
	return protowire.AppendString(protowire.AppendTag(b, anyString, protowire.BytesType), s)
}

// appendKey appends a KeyValue without its value, which has size bytes. A span has six of them,
// so the lengths come first, and nothing is moved.
func appendKey(b []byte, field protowire.Number, key attribute.Key, size int) []byte {
	k := valid(string(key))
	b = protowire.AppendTag(b, field, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(protowire.SizeTag(keyValueKey)+protowire.SizeBytes(len(k))+
		protowire.SizeTag(keyValueValue)+protowire.SizeBytes(size)))
	b = protowire.AppendString(protowire.AppendTag(b, keyValueKey, protowire.BytesType), k)
	return protowire.AppendVarint(protowire.AppendTag(b, keyValueValue, protowire.BytesType), uint64(size))
}

// message appends a field with the length and the bytes that fill appends.
func message(b []byte, field protowire.Number, fill func([]byte) []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	at := len(b)
	b = fill(append(b, 0)) // most lengths take one byte
	n := len(b) - at - 1
	for range protowire.SizeVarint(uint64(n)) - 1 {
		b = append(b, 0)
	}
	copy(b[len(b)-n:], b[at+1:at+1+n])
	protowire.AppendVarint(b[:at], uint64(n))
	return b
}

func text(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), valid(s))
}

// valid returns a text that is UTF-8: a collector refuses the whole request otherwise.
func valid(s string) string {
	if utf8.ValidString(s) { // several times as fast as ToValidUTF8
		return s
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

func bytesOf(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

func number(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func timestamp(b []byte, field protowire.Number, at time.Time) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), uint64(max(at.UnixNano(), 0)))
}
