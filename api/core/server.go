package core

// WithinKey marks requests that come from this process.
type WithinKey struct{}
