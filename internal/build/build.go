// Package build knows which build of osqueue this program is: the command version, /status and the metric
// build_info have it from here.
package build

import (
	"runtime"

	"osqueue/fsm"
)

// The linker sets these, see STAMP in the Makefile.
var (
	version = "devel"
	commit  string
	date    string // of the commit
)

// Info describes a build.
type Info struct {
	Version      string `json:"version"`
	Commit       string `json:"commit,omitempty"` // "": built without make
	Date         string `json:"date,omitempty"`   // of the commit, as in RFC 3339
	Go           string `json:"go"`               // version of the compiler
	FeatureLevel uint32 `json:"feature_level"`    // the highest that it knows
}

// Get returns the build of this program.
func Get() Info {
	return Info{Version: version, Commit: commit, Date: date, Go: runtime.Version(), FeatureLevel: fsm.MaxLevel}
}
