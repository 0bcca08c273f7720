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
//	ca.crt    the certificates of the CA: one, or two while the CA is replaced
//	ca.key    the CA's private key; needed to issue certificates, never to run a node
//	NAME.crt  a certificate, NAME.key its private key
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
//	identity.go   the certificate of a running process, and its TLS configurations
//	pem.go        files
//
// # Replacing the CA
//
// A new CA is the first certificate in ca.crt, and the previous one the second. Processes that
// have this file trust both, so that certificates of either are valid until all are renewed. The
// operator copies the file: no request changes which CA a node trusts.
//
// # Failure stance
//
// An Identity reads its files again when they change, so that a certificate is renewed
// without a restart. If the new files cannot be used, it keeps the previous certificate
// and reports the error. A certificate that has expired ends no open connection, but
// no new connection is made with it.
package certs
