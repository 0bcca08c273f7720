// Package certs makes and checks the certificates of a cluster.
//
// # Problem
//
// Programs that reach the ports of a node must not be able to act as a node, and must not
// read what nodes and clients send. So each cluster has a certificate authority (CA) of its
// own. A program is a node of the cluster if, and only if, it has a certificate of a node
// that this CA has signed.
//
// # Files
//
//	ca.crt          the certificates of the CA: one, or two while the CA is replaced
//	ca.key          the CA's private key; needed to issue certificates, never to run a node
//	ca.endorsement  the newest CA, certified by the one before, while the CA is replaced
//	NAME.crt        a certificate, NAME.key its private key
//
// Keys are readable by their owner only. All keys are ECDSA P-256, and all connections are
// TLS 1.3.
//
// # Names
//
// A certificate names its subject by a URI in the form of SPIFFE: spiffe://ID/node/n1 for
// node n1, spiffe://ID/client/ci for a client. ID is random and made with the CA; it stays
// when the CA is replaced. A node's certificate also has the host names and IP addresses
// by which others dial the node. A certificate without such a URI is refused.
//
// # Parts
//
//	authority.go  creates, loads and replaces a CA, and issues certificates
//	subject.go    who a certificate is for
//	trust.go      the certificates of a CA for nodes that trust the previous one
//	identity.go   the certificate of a running process, and its TLS configurations
//	pem.go        files
//
// # Replacing the CA
//
// An admin sends the certificates of the CA to the nodes. An admin without the key of the CA
// must not be able to make nodes, so a node takes a new CA only if the CA that it trusts has endorsed it: the endorsement is a
// certificate of the new CA's key by the old one. A node never drops the newest
// certificate that it trusts, and takes no list that does not verify its own certificate.
//
// # Failure stance
//
// An Identity reads its files again when they change, so that a certificate is renewed
// without a restart. If the new files cannot be used, it keeps the previous certificate
// and reports the error. A certificate that has expired ends no open connection, but
// no new connection is made with it.
package certs
