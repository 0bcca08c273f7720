// Package timeline draws a history as one HTML file that needs no other: a lane for
// each client, operations as bars by outcome, faults as bands across all lanes, and
// changes of leader as lines.
//
// A run has more operations than a screen has pixels. So bars that would be narrower
// than a pixel and lie on top of each other are drawn as one, with the worst outcome
// and their number: no more is drawn than can be seen, however long the run. What a
// violation names is never merged. A window around one operation shows each.
package timeline
