package transport

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/internal/limit"
)

// raftLogger is raft's logger without repetitions. Raft logs each failed request: a dead
// peer causes three errors a second, which hide every other line. raftLogger logs the
// first one, and then one line a minute with the number of the others. It logs errors of
// a transport that this node has closed as debug output, because an orderly stop is not
// an error.
type raftLogger struct {
	hclog.Logger
	repeats *limit.Repeats
}

// NewLogger returns a logger for raft that writes to log without repetitions.
func NewLogger(log hclog.Logger) hclog.Logger {
	return &raftLogger{Logger: log, repeats: new(limit.Repeats)}
}

// Named implements hclog.Logger.
func (l *raftLogger) Named(name string) hclog.Logger {
	return &raftLogger{Logger: l.Logger.Named(name), repeats: l.repeats}
}

// With implements hclog.Logger.
func (l *raftLogger) With(args ...any) hclog.Logger {
	return &raftLogger{Logger: l.Logger.With(args...), repeats: l.repeats}
}

// Error implements hclog.Logger.
func (l *raftLogger) Error(msg string, args ...any) { l.log(l.Logger.Error, msg, args) }

// Warn implements hclog.Logger.
func (l *raftLogger) Warn(msg string, args ...any) { l.log(l.Logger.Warn, msg, args) }

func (l *raftLogger) log(at func(string, ...any), msg string, args []any) {
	if closed(args) {
		l.Logger.Debug(msg, args...)
		return
	}
	skipped, due := l.repeats.Due(topic(msg, args))
	if !due {
		l.Logger.Debug(msg, args...)
		return
	}
	if skipped > 0 {
		args = append(args[:len(args):len(args)], "skipped", fmt.Sprintf("%d similar lines since the last one", skipped))
	}
	at(msg, args...)
}

// closed reports whether a line only says that this node has closed its transport or a
// connection.
func closed(args []any) bool {
	return slices.ContainsFunc(args, func(arg any) bool {
		err, ok := arg.(error)
		return ok && (errors.Is(err, raft.ErrTransportShutdown) || errors.Is(err, net.ErrClosed))
	})
}

// unreachable has the messages that all mean that a peer does not answer.
var unreachable = map[string]bool{
	"failed to heartbeat to":                  true,
	"failed to contact":                       true,
	"failed to appendEntries to":              true,
	"failed to pipeline appendEntries":        true,
	"failed to start pipeline replication to": true,
	"failed to make requestVote RPC":          true,
}

// topic returns the key under which a line counts as a repetition: the message and the
// peer.
func topic(msg string, args []any) string {
	if unreachable[msg] {
		msg = "unreachable"
	}
	for _, arg := range args {
		switch peer := arg.(type) {
		case raft.Server:
			return msg + " " + string(peer.Address)
		case raft.ServerID:
			return msg + " " + string(peer)
		case raft.ServerAddress:
			return msg + " " + string(peer)
		}
	}
	return msg
}
