// Package link is a network in which everything goes through TCP proxies of the
// test, so that a test can make it as bad as networks are, and can prove that it
// was bad.
//
// # Problem
//
// All processes of a test share one machine, where the network never fails. And a
// fault that was ordered but hit nothing must not count: the test has to know which
// bytes were withheld, and between which processes.
//
//	n1 ──dials──▶ port of n2 ──▶ n2        the port asks /proc whose socket it is
//	                │                      that has dialed it, so it knows both ends
//	                ├─ lane n1→n2 ─ conditions, counters
//	                └─ lane n2→n1 ─ conditions, counters
//
// # Use
//
//	n := link.New()
//	defer n.Close()
//	n.Listen("n2", link.Raft, "127.0.0.1:7080", "127.0.0.2:7080")
//	n.Start("n1", cmd)                      // starts a process, and knows it as n1
//	f := n.Impose(link.Condition{Cut: true}, link.Both("n1", "n2")...)
//	…
//	f.Heal()
//	proof := f.Count()                      // what became of its links meanwhile
//	if !f.Hit() { … }                       // nothing went there: it was no fault
//
// # Conditions
//
// Faults add up: a lane is cut if any fault cuts it; delays are summed; the lowest
// rate counts. Each fault is healed by itself.
//
// A cut is of one direction, on every connection between the two, whichever side dialed:
// this makes a connection half open. Bytes that the sender has sent meanwhile, and its
// end, are kept, up to 4 MiB a connection, then the sender waits; they arrive after
// healing. A connection that is dialed while either direction is cut is accepted by
// the port and not forwarded, as its handshake would not complete: no bytes flow until
// healing. Then the sent bytes flow, unless the dialer has gone, or has ended its
// half: there would never have been a connection.
//
// What is being written while Impose returns may still pass, one piece a connection.
//
// A target that does not answer, as the address of a killed process, is a reset
// after the connection was accepted, where a real one would be refused.
//
// # Late and repeated requests
//
// Replay sends once more what was sent to the raft of a node, over new connections: as if
// its senders had given up on the requests and the network delivered them now. It is for
// connections without TLS.
//
// # Whose connection it is
//
// The port finds the other end's socket in /proc/net/tcp, and its holder among the
// processes that Start has started; everybody else is Client, processes that those
// have started among them. Only IPv4, and only Linux.
package link
