// Package units reads and formats the values that people write on command lines: lengths
// of time, points in time, sizes, rates, backoffs, unique keys, statuses and ack levels.
//
// Each notation has a function Parse…, a function …Text that formats a value so that it
// can be typed again, and a type that implements pflag.Value. Errors name the value and
// the notation. The package writes nothing, and knows neither commands nor terminals.
package units
