// Package compose tests the project's compose file on a container engine: three brokers and two
// workers from an image that has only the binary. Without an engine the tests are skipped.
package compose
