// Package compose holds the tests that run the project's compose file on a
// container engine: three brokers and two workers from an image of nothing but
// the binary. Where there is no engine they are skipped.
package compose
