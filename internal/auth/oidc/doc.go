// Package oidc verifies the JWTs that an OpenID Connect provider has signed, and gives them roles.
//
// # Problem
//
// People and CI jobs have an identity at a provider already. A JWT of the provider proves it without a
// secret of the queue. But the queue must not depend on the provider: it is away at times, it
// answers slowly, it replaces its keys, and strangers send tokens that look like its own.
//
// # Rules
//
//   - A JWT counts if it has one signature by a key of the provider, with an algorithm of the
//     allow-list. Only asymmetric algorithms can be on that list, so a public key is never taken
//     for a shared secret, and "none" never counts.
//   - Issuer and audience must be the configured ones. exp and sub are required. exp, nbf and iat
//     are compared with the clock, with Leeway in both directions.
//   - The first rule of auth.Roles that matches the claims gives the role. Without a rule the JWT
//     is valid and has no rights.
//
// # Keys
//
// go-oidc finds the key of a JWT, and asks for the keys again if none fits. A limit stands between it
// and the provider: at most one fetch runs at a time, and fetches begin at least FetchPause apart,
// however many JWTs name unknown keys. Keys are also fetched in the background, at the start and every
// RefreshEvery. A request waits for a fetch in progress for at most FetchWait. If a fetch fails, the
// previous keys stay. A provider that removes a key is believed at the next refresh.
//
// # Limits
//
// An answer of the provider has at most 1 MiB and 100 keys, and takes at most 5 s. A JWT has at most
// 16 KiB. The results of the last 4096 JWTs are remembered for a minute, because a signature costs
// more than the rest of most requests.
//
// # Failure stance
//
// Errors refuse: without keys, JWTs are refused, and tokens of the queue still work. While the
// provider is away, a JWT without a signature by a known key is not called wrong (401): the error wraps
// auth.ErrUnsure (503), so that clients repeat the request. So it is after a restart, until the keys
// are fetched. Errors never contain the JWT.
package oidc
