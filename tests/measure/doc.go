// Package measure has what the benchmarks of this repository have in common: the processor time
// and the memory of server processes, percentiles, a description of the machine and of the other
// programs on it, and the place where servers run.
//
// The figures of processes come from /proc, so they exist on Linux only. On other systems the
// functions return an error and a benchmark prints its rates without them.
//
// The package imports only the standard library, because tests/peers is a module of its own with
// the clients of other queues.
package measure
