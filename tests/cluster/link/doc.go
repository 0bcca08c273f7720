// Package link is a network in which everything goes through TCP proxies of the
// test, so that a test can make it as bad as networks are, and can prove that it
// was bad.
//
// # Problem
//
// All processes of a test share one machine, where the network never fails. And a
// fault that was ordered but hit nothing must not count: somebody has to know which
// bytes it has held up, between whom.
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
//
// # Exported
//
//	type Service string                     // Raft, HTTP, Bucket; "" is all of them
//	const Client = "client"                 // the test itself, and whoever is unknown
//	const Store = "store"                   // customary owner of a Bucket port
//
//	type Link struct{ From, To string; Service Service }  // directed; "" is everybody
//	func Both(a, b string, only ...Service) []Link        // there and back
//	func Between(groups ...[]string) []Link               // all pairs of different groups
//	func (l Link) String() string
//
//	type Condition struct {
//		Cut           bool          // bytes are withheld, and flow again afterwards
//		Delay, Jitter time.Duration // each byte is late by Delay + up to Jitter; in order
//		Rate          int           // bytes a second, 0: any
//		Reset         bool          // RST to all connections between the two, also new ones
//	}
//
//	type Net struct{ … }
//	func New() *Net
//	func (n *Net) Close()
//	func (n *Net) Listen(owner string, s Service, listen, target string) error
//	func (n *Net) Start(name string, cmd *exec.Cmd) error // cmd.Start, and know its pid
//	func (n *Net) Impose(c Condition, links ...Link) *Fault
//	func (n *Net) Heal()                                  // all faults
//	func (n *Net) Count(links ...Link) Count              // since New
//
//	type Fault struct{ … }
//	func (f *Fault) Heal()
//	func (f *Fault) Count() Count                         // since Impose, until Heal
//	func (f *Fault) String() string
//
//	type Count struct {
//		Passed, Withheld, Delayed int64 // bytes
//		Held, Reset, Refused      int64 // connections
//	}
//	func (c Count) Minus(older Count) Count
//	func (c Count) String() string
//
// # Conditions
//
// Faults add up: a lane is cut if any fault cuts it; delays are summed; the lowest
// rate counts. Each fault is healed by itself.
//
// A cut is of one direction, on every connection between the two, whoever dialed:
// that is what makes a connection half open. What the sender has sent meanwhile, its
// end too, is kept, up to 4 MiB a connection, then the sender waits; it arrives after
// healing. A connection that is dialed while either direction is cut is accepted by
// the port and goes no further, as its handshake would not: nothing flows until
// healing, and then what was sent flows, unless the dialer has gone.
//
// What is being written while Impose returns may still pass, one piece a connection.
//
// A target that does not answer, as the address of a killed process, is a reset
// after the connection was accepted, where a real one would be refused.
package link
