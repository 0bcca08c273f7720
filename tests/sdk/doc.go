// Package sdk tests the Go SDK against real nodes, and runs its examples. The module of the SDK
// has no such tests of its own, because it does not require the server.
package sdk
