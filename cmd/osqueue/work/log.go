package work

import (
	"context"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// sdkLogger returns a logger of log/slog, with which the SDK logs, that writes to log. The level of log decides what is written.
func sdkLogger(log hclog.Logger) *slog.Logger { return slog.New(logHandler{log: log}) }

// logHandler is a slog.Handler. An attribute in a group has the name of the group and a dot in
// front of its own.
type logHandler struct {
	log   hclog.Logger
	group string // "" or the names of the groups, each with a dot
}

// Enabled reports whether the logger writes records of the level.
func (h logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return levelOf(level) >= h.log.GetLevel()
}

// Handle writes a record.
func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	args := make([]any, 0, 2*r.NumAttrs())
	r.Attrs(func(a slog.Attr) bool {
		args = appendAttr(args, h.group, a)
		return true
	})
	h.log.Log(levelOf(r.Level), r.Message, args...)
	return nil
}

// WithAttrs returns a logHandler that adds the attributes to each record.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var args []any
	for _, a := range attrs {
		args = appendAttr(args, h.group, a)
	}
	return logHandler{log: h.log.With(args...), group: h.group}
}

// WithGroup returns a logHandler whose attributes are in the group.
func (h logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return logHandler{log: h.log, group: h.group + name + "."}
}

// appendAttr appends the names and values of an attribute, or of each one in a group.
func appendAttr(args []any, group string, a slog.Attr) []any {
	value := a.Value.Resolve()
	switch {
	case a.Equal(slog.Attr{}):
		return args
	case value.Kind() != slog.KindGroup:
		return append(args, group+a.Key, value.Any())
	case a.Key != "":
		group += a.Key + "."
	}
	for _, inner := range value.Group() {
		args = appendAttr(args, group, inner)
	}
	return args
}

// levelOf returns the level of hclog that is not above the level.
func levelOf(level slog.Level) hclog.Level {
	switch {
	case level >= slog.LevelError:
		return hclog.Error
	case level >= slog.LevelWarn:
		return hclog.Warn
	case level >= slog.LevelInfo:
		return hclog.Info
	case level >= slog.LevelDebug:
		return hclog.Debug
	}
	return hclog.Trace
}
