// Package enroll gives certificates to nodes that ask for them: to new nodes, which have a join
// token, and to nodes whose certificate ends.
//
// # Problem
//
// A private key should never leave the machine that made it, and the key of the CA should be
// on as few machines as possible. So a node sends a certificate signing request (CSR), and
// the holder of the key of the CA answers it. The two need not run at the same time: the request
// and the answer are records of the replicated state.
//
// # Join tokens
//
// An admin makes a token for one node: its name, its hosts, the address of its HTTP port. The
// text of the token has an id, a secret, the name, the pins of the CA (SHA-256 of the public keys
// of its certificates), and addresses of the cluster. The state has the SHA-256 of the secret.
//
//	new node                          leader                          holder of ca.key
//	reads ca, compares with pin ◀──── ca
//	secret, CSR ────────────────────▶ key/ID: binds the token
//	                                  ◀──────────────── pending requests
//	                                  cert/ID ◀──────── certificate
//	secret, CSR (every second) ─────▶ certificate, CA, peers
//
// Records are marks of the state (fsm.RoleMark), which can be created once only: the first
// key that uses a token is its only one, on whichever leader and after whichever failover. The
// same key may ask again as long as the token lives, and gets the same certificate, so a new node
// that was cut repeats its request. All records of a token end with it.
//
//	join/ID    the token: hash of the secret, name, hosts, address, lifetime of the certificate
//	key/ID     the public key that has used it
//	cert/ID    the certificate
//	peer/NAME  the HTTP address of a node that may be a member (osqueue cluster add writes it, too)
//
// Renewals have the same records, with n.NAME as their id. The certificate by which the node is
// known takes the place of the secret, and the hosts are those of that certificate.
//
// # Who is trusted with what
//
// The holder of ca.key is a process with serve --tls-ca-key, or the command osqueue cert sign
// where the CA was made. By default no node has the key. The leader decides which name and hosts
// a key gets; names in the CSR are ignored. It stores a certificate only if the CA
// has signed it for exactly that name, those hosts and that key. A token is worth one certificate
// of one node to the first machine that uses it; the second one is refused and sees it.
//
// # Failure stance
//
// A server that cannot prove the CA of the pin gets neither the secret nor the CSR. A
// certificate counts as issued when its key asked (certs.IssuedAt), so a request from before a
// revocation gives nothing that is valid after it, whatever the clock of the signer. Expiry
// is decided by the queue's time. A node without an answer keeps its certificate, asks again, and
// reports it.
package enroll
