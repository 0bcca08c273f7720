//go:build !linux

package machine

// NetworkStack returns "": the identity of the network stack is unknown.
func NetworkStack() string { return "" }
