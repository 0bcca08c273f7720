package transport

import (
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// Moved sends the requests to a server to another address than that of raft's configuration.
// Nodes that have all moved elect a leader with it, which then changes the configuration. Raft
// knows servers by their ids, so an address is only a way to a server.
type Moved struct {
	Transport
	mu sync.Mutex
	to map[raft.ServerID]move
}

// move is a new address of a server, in place of the configured one.
type move struct{ from, to raft.ServerAddress }

// NewMoved returns a transport that sends through t, at first to the addresses that raft gives.
func NewMoved(t Transport) *Moved {
	return &Moved{Transport: t, to: make(map[raft.ServerID]move)}
}

// Move sends what raft sends to a server at from to the address to.
func (m *Moved) Move(id raft.ServerID, from, to raft.ServerAddress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.to[id] = move{from, to}
}

// At returns the address for a server that raft has at an address.
func (m *Moved) At(id raft.ServerID, address raft.ServerAddress) raft.ServerAddress {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a, ok := m.to[id]; ok && a.from == address {
		return a.to
	}
	return address
}

// AppendEntries implements raft.Transport.
func (m *Moved) AppendEntries(
	id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse,
) error {
	return m.Transport.AppendEntries(id, m.At(id, to), args, resp)
}

// RequestVote implements raft.Transport.
func (m *Moved) RequestVote(
	id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse,
) error {
	return m.Transport.RequestVote(id, m.At(id, to), args, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (m *Moved) RequestPreVote(
	id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse,
) error {
	return m.Transport.RequestPreVote(id, m.At(id, to), args, resp)
}

// InstallSnapshot implements raft.Transport.
func (m *Moved) InstallSnapshot(
	id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader,
) error {
	return m.Transport.InstallSnapshot(id, m.At(id, to), args, resp, data)
}

// TimeoutNow implements raft.Transport.
func (m *Moved) TimeoutNow(
	id raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse,
) error {
	return m.Transport.TimeoutNow(id, m.At(id, to), args, resp)
}
