package main

import (
	"strings"
	"testing"

	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

// TestMistakesNameTheArgument: an error of the command line names the argument or flag and says how to write it.
func TestMistakesNameTheArgument(t *testing.T) {
	for line, want := range map[string]string{
		"submit":                            "TYPE is missing",
		"job show":                          "ID is missing",
		"job show a b":                      "too many arguments: a b",
		"restore file:///b":                 "too many arguments: file:///b",
		"help nope":                         `unknown command "nope" for "osqueue"`,
		"help job nope":                     `unknown command "nope" for "osqueue job"`,
		"completion csh":                    `unknown command "csh" for "osqueue completion"`,
		"queue set":                         "TYPE is missing",
		"cron put n":                        "SPEC is missing",
		"cron put n @daily":                 "--type is missing",
		"hook delete a":                     `"osqueue hook" (commands: `,
		"submit a --priority high":          `invalid argument "high" for "--priority" flag: write a whole number`,
		"submit a --max-attempts -1":        `"--max-attempts" flag: must be positive`,
		"submit a --lease soon":             `invalid argument "soon" for "--lease" flag: "soon" is not a duration: write it as in 500ms, 90s, 1h30m, 1d or 1w`,
		"submit a {\"to\":you}":             `the payload is not valid JSON at byte 6, after "{\"to\":": `,
		"job ls --created-after yesterday":  "90m (ago)",
		"worker --exec a=true --lease 1day": `"1day" is not a duration`,
		"worker --exec a=b --concurrency 0": `"--concurrency" flag: must be positive`,
	} {
		if got := osqTest(t, clitest.NewFake(t), "", strings.Fields(line)...); got.Code != view.ExitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// TestHelpOfWhatExists: help, completion and --version of what exists are no mistakes.
func TestHelpOfWhatExists(t *testing.T) {
	for _, line := range []string{"help", "help job", "help job show", "help completion bash", "completion bash", "completion", "--version"} {
		if got := osqTest(t, clitest.NewFake(t), "", strings.Fields(line)...); got.Code != view.ExitOK || got.Out == "" || got.Err != "" {
			t.Errorf("%s: %+v", line, got)
		}
	}
}
