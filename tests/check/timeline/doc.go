// Package timeline draws a history as one self-contained HTML file: a lane for each client,
// operations as bars by outcome, faults as bands across all lanes, and changes of leader as
// lines.
//
// A run has more operations than a screen has pixels. So bars that would be narrower than a
// pixel and overlap are drawn as one, with the worst outcome and their number. The size of the
// drawing is bounded by the screen, however long the run is. Operations that a violation names
// are never merged. A window around one operation shows each bar.
package timeline
