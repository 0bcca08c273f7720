// Package membership forms a cluster, and adds and removes its nodes.
//
// # Problem
//
// A node must never vote twice: not after it lost its disk, and not next to a second node
// of its name. No node may start a new cluster while an old one still runs. A node that was
// removed must notice it, although raft does not send it the removal. An operator who
// removes nodes must not be able to remove the majority by mistake, and a cluster that
// runs for years must not depend on the flags with which its first nodes were started.
//
// # Parts
//
//	serverid.go  the server id name~instance, which belongs to the data directory
//	Peers        the requests to other nodes; needs no raft
//	Seed         a new node reads the state in the bucket before raft starts
//	Members      the node's own membership, and what the leader does for others
//	change.go    the changes that an operator asks the leader for
//	senders.go   whose raft requests the node takes
//
// # The list of members
//
// Raft's configuration is the list of members. It has no HTTP addresses, and no nodes that
// are still to come. For these there is one replicated record for each name, Admission: the
// address of the HTTP API, and whether the node stays without a vote. A node may join if the
// configuration or an Admission has its name, and it answers at the address of the Admission
// or at its address in the leader's --peers. --peers is a first contact, and for a new
// cluster the list of nodes that bootstrap it; it admits no node to a cluster that exists.
//
// # States of a node
//
//	           all nodes of --peers are empty
//	empty ───────────(bootstrap)──────────────────────────▶ voter ──(remove)──▶ ends
//	  └─(add)─▶ admitted ─(it comes)─▶ joining ─(caught up)─▶ │ ▲
//	                                     │            (demote)│ │(promote)
//	                                     └─(--non-voter)─▶ non-voter ──(remove)──▶ ends
//
// A joining node asks the leader. The leader checks that the operator has named the node,
// that it answers at its address with the identity of the request, and that the
// server it replaces is gone. It sends nothing to addresses of the request. Then it adds the
// node without a vote, waits until the node has the log, and gives it a vote. Each step may
// be repeated.
//
// # Rights
//
// Only an operator with the right admin changes the list, on the active leader: Add, Remove,
// Promote, Demote. A node can only do what was decided before: join under a name that is
// in the list, replace its own server that is gone, and take a new address. No node leaves
// because its process ends, however it ends, or because it does not answer.
//
// A change is refused if afterwards no majority of the voters would answer the leader, by
// requests that it sends when it decides. So every change leaves a cluster that continues. The leader neither removes nor demotes itself.
//
// # Failure stance
//
// Members refuses when it cannot know: it removes no server that may still run, and
// bootstraps only when every node of --peers has answered that it is empty. A refusal says
// what to do, and the joining node asks again. Seed is an optimization: if it fails, the
// leader sends the whole state.
//
//   - A change that is cut. Each change is one record, one entry of raft's configuration, or
//     first the record and then the entry. The record alone changes nothing for the members:
//     an admitted node has not come, a demoted one has its vote until Demote is repeated.
//     Remove drops the record first, so a node that was removed is not admitted again.
//     The server that a new one replaces gets an address that nothing answers before the new
//     one is added, and is removed last, so the name is in the list at every moment.
//   - A change that comes twice. Add of an admitted name, Demote of a non-voter and Promote of
//     a voter change nothing. Remove of a name that is not there is an error.
//   - A change that comes late, or two operators at the same time. The leader makes one
//     change at a time, and decides with the configuration of the moment. A deposed leader cannot
//     commit its change.
//   - An answer that is lost. The error is ErrUnknown; the list shows what holds.
package membership
