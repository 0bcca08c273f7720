// Package queuev1 has the messages and the service of the legacy broker's Connect RPC API. All
// other files are generated.
package queuev1
