// Package needs says what the recorded clients make of an answer: whether a call
// resolves or throws. It is the class that an answer has to be in, where a recorded
// exchange is one member of it.
//
// The rules are those of the recorded system's client, one function for each of its
// transports; client_needs.json holds them against what the real one did.
//
//	rest         any 2xx; 204 has no value, all else must be JSON, whatever its type
//	ws           the frame with the request's id, as text or number; the others do not count
//	connect      200 with application/proto
//	connect-web  200 with application/json, and JSON in it
package needs
