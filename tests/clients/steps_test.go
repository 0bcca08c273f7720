package clients

import "testing"

const stepsWanted = `{
	"blocked": "blocked", "waitEnds": true, "signal": ["unclaimed", true],
	"batch": [2, 2, 0], "attempts": 2,
	"fan": {
		"charge": {"id": "ch_1"}, "none": null, "late": true, "by": {"by": "ann"},
		"parts": [["completed", 10], ["dead", null], ["completed", 30]]
	},
	"total": ["completed", {"by": "ann"}],
	"linked": null, "edited": [1, 70, 3],
	"large": ["dead", 1, "the step large"],
	"no-json": ["dead", 1, "the step odd"],
	"lost": ["dead", 1, "the suspension was refused"],
	"orphan": ["dead", 1, "the job has no children none"],
	"called": ["charge", "none", "slept", "large", "odd"]
}`

// Steps are called once, however many attempts a job has; sleeps, signals and children end an attempt without cost, and a job
// that has waited gets what came. A step that cannot be stored makes the job dead, because its next attempt would call it again.
func TestSteps(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := l.share(t, 1)
		out := run(t, l.desk(t), []string{servers(c), "OWN=" + c.Own("")}, l.interpreter, "steps"+l.extension)
		checkFields(t, object(t, out), object(t, stepsWanted))
	})
}
