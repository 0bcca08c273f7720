// Package regression repeats, with real processes, the scenarios of defects that were found in
// released versions. Scenarios that simulated time can show are tested next to the code.
package regression
