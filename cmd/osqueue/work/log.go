package work

import (
	"context"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// sdkLogger returns a logger of log/slog, with which the SDK logs, that writes to log. The level of log decides what is written.
func sdkLogger(log hclog.Logger) *slog.Logger { return slog.New(logHandler{log: log}) }

// logHandler is a slog.Handler. The SDK makes no groups.
type logHandler struct{ log hclog.Logger }

// Enabled implements slog.Handler.
func (h logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return levelOf(level) >= h.log.GetLevel()
}

// Handle implements slog.Handler.
func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	var args []any
	r.Attrs(func(a slog.Attr) bool {
		args = append(args, a.Key, a.Value.Resolve().Any())
		return true
	})
	h.log.Log(levelOf(r.Level), r.Message, args...)
	return nil
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	log := h.log
	for _, a := range attrs {
		log = log.With(a.Key, a.Value.Resolve().Any())
	}
	return logHandler{log}
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.log.Named(name)} }

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
