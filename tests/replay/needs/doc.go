// Package needs decides how the recorded clients treat an answer: whether a call resolves or
// throws. A recorded exchange is one answer; this package defines the class of all acceptable
// answers.
//
// The rules are those of the recorded system's client, one function for each of its transports.
// client_needs.json compares them with the results of the real client.
//
//	rest         any 2xx; 204 has no value, all else must be JSON, whatever its type
//	ws           the frame with the request's id, as text or number; the others do not count
//	connect      200 with application/proto
//	connect-web  200 with application/json, and JSON in it
package needs
