package storage

// Op names an operation of Bucket, for metrics and for fault rules.
type Op string

// The operations of Bucket that reach the store.
const (
	OpGet         Op = "get"
	OpPutIfAbsent Op = "put_if_absent"
	OpPutIfMatch  Op = "put_if_match"
	OpList        Op = "list"
	OpDelete      Op = "delete"
)

// IsWrite reports whether op answers with a Write.
func (o Op) IsWrite() bool { return o == OpPutIfAbsent || o == OpPutIfMatch }
