package cluster

import (
	"errors"
	"fmt"
	"net"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// raftLogger is raft's log with the repetitions left out. Raft logs each failed
// request: a dead peer costs three errors a second, in which every other line drowns.
// Here it costs one line, and one a minute that counts the rest. An orderly stop is no
// error: what the closed transport reports is logged as debug output.
type raftLogger struct {
	hclog.Logger
	repeats *repeats
}

func newRaftLogger(log hclog.Logger) *raftLogger {
	return &raftLogger{Logger: log, repeats: new(repeats)}
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
	skipped, due := l.repeats.due(topic(msg, args))
	if !due {
		l.Logger.Debug(msg, args...)
		return
	}
	if skipped > 0 {
		args = append(args[:len(args):len(args)], "skipped", fmt.Sprintf("%d of these since the last line", skipped))
	}
	at(msg, args...)
}

// closed reports whether a line says only that this node has closed its transport or
// a connection.
func closed(args []any) bool {
	for _, arg := range args {
		if err, ok := arg.(error); ok && (errors.Is(err, raft.ErrTransportShutdown) || errors.Is(err, net.ErrClosed)) {
			return true
		}
	}
	return false
}

// unreachable are the lines that all say that a peer does not answer.
var unreachable = map[string]bool{
	"failed to heartbeat to":                  true,
	"failed to contact":                       true,
	"failed to appendEntries to":              true,
	"failed to pipeline appendEntries":        true,
	"failed to start pipeline replication to": true,
	"failed to make requestVote RPC":          true,
}

// topic is what two lines have in common if one repeats the other: the message and
// the peer.
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
