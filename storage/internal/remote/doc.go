// Package remote is what the drivers of stores behind HTTP have in common: the
// form of their URLs, and deadlines that fit both a small document and a
// snapshot of hundreds of megabytes.
package remote
