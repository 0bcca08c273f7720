// Package auth decides who may do what: it reads access tokens, says which rights a role
// has, and checks the scope of a request.
//
// # Problem
//
// A request carries a Principal: an identity with rights, made from a token, a JWT or a
// client certificate. The API asks three questions: is the token valid (Authorize),
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
// # Tenants
//
// Every object has an owner. A job belongs to its type and group: the scope says who may see it. Batches, schedules,
// unique keys, request keys and names of workers belong to the tenant of the token that made them
// (tenants.Owned): the name that the token was given, or its family if it is limited, so that a rotation loses
// nothing. Principal.Own writes the tenant into the envelope of a mutation, and the log's decoding applies it to
// all names at one place. What belongs to another tenant, or is out of the scope, does not exist for the caller
// (ErrHidden). Callers without limits have the tenant "" and see everything, as do the legacy listener
// and the inbox, which make objects of the tenant "".
//
// # Failure stance
//
// A right that is not declared is denied. Errors name the token's id, never its secret.
package auth
