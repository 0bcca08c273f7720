// Package regression repeats, with real processes, the scenarios of defects that were
// found in released versions. What simulated time can show is tested beside the code.
package regression
