// Package auth decides who may do what: it reads access tokens, says which rights a role
// has, and checks the scope of a request.
//
// # Problem
//
// A request carries a Principal: an identity with rights, made from a token today and from
// a client certificate later. The API asks three questions: is the token valid (Authorize),
// does its role have the right of the route (Principal.Has), and does the request stay in its
// scope (Principal.CheckWrite, Principal.CheckType)?
//
// # Tokens
//
// A token is osq_<id>_<secret>_<crc>: an id of 80 random bits, a secret of 256, and the CRC-32
// of the part before, so that a scanner recognises a leaked token and a typing error is reported
// as one. The state has the SHA-256 of the secret. A slow hash gains nothing: a secret of 256 bits
// cannot be guessed. The comparison takes constant time, also for an id that does not exist.
//
// # Scope
//
// A token may be limited to types and groups by globs (path.Match). Writes are checked by the
// mutation that they would commit, so a batch is checked job by job, and another protocol needs
// no check of its own. A token with a scope must name what it asks for: a claim without types, a
// change by a filter without a type, and a list over all types are refused, never narrowed in
// silence.
//
// # Failure stance
//
// A right that is not declared is denied. Errors name the token's id, never its secret.
package auth
