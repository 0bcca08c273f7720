package main

import (
	"bytes"
	"strings"
	"testing"

	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

var osq = clitest.Tree(commands)

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
		"limit set --running 1":             "NAME is missing",
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
		if got := osq.Run(t, clitest.NewFake(t), "", strings.Fields(line)...); got.Code != view.ExitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// TestHelpOfWhatExists: help, completion and --version of what exists are no mistakes.
func TestHelpOfWhatExists(t *testing.T) {
	for _, line := range []string{"help", "help job", "help job show", "help completion bash", "completion bash", "completion", "--version"} {
		if got := osq.Run(t, clitest.NewFake(t), "", strings.Fields(line)...); got.Code != view.ExitOK || got.Out == "" || got.Err != "" {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// program runs a command line of the whole program, without a cluster.
func program(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	var out, errOut bytes.Buffer
	g := &view.Globals{Out: &out, Err: &errOut, Getenv: func(string) string { return "" }}
	code := run(t.Context(), args, g)
	return clitest.Result{Out: out.String(), Err: errOut.String(), Code: code}
}

func TestDevRefusesWhatCannotWork(t *testing.T) {
	for line, want := range map[string]string{
		"restrt n1":                         `"restrt": dev takes no arguments`,
		"--nodes 0":                         "use 1 to 9",
		"--http-port 65535":                 "between 1 and 65535",
		"--http-port 9000 --raft-port 9002": "overlap",
		"--bucket ftp://x":                  `unknown scheme "ftp"`,
		"--bucket mem://":                   "a bucket of its own",
		"-- --nonsense":                     "unknown flag",
		"-- extra":                          `"extra" is not a flag`,
		"-- --max-attempts 0":               "must be positive",
	} {
		got := program(t, append([]string{"dev"}, strings.Fields(line)...)...)
		if got.Code != view.ExitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("dev %s: %+v", line, got)
		}
	}
}

func TestUnknownCommandsAreWrongUse(t *testing.T) {
	for _, line := range []string{"nonsense", "--json nonsense", "job nonsense", "version extra", "inspect"} {
		if got := program(t, strings.Fields(line)...); got.Code != view.ExitUsage || got.Err == "" {
			t.Errorf("%s: %+v", line, got)
		}
	}
	for _, line := range []string{"", "--help", "help serve", "job", "completion bash"} {
		if got := program(t, strings.Fields(line)...); got.Code != view.ExitOK || got.Out == "" || got.Err != "" {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// The flags that all commands share are listed once.
func TestHelpListsGlobalFlagsOnce(t *testing.T) {
	const list = "--token-file string"
	for _, line := range []string{"serve", "version", "inspect", "status", "job"} {
		if got := program(t, append(strings.Fields(line), "--help")...); strings.Contains(got.Out, list) {
			t.Errorf("%s: %s", line, got.Out)
		}
	}
	if got := program(t, "serve", "--help"); strings.Contains(got.Out, "-1ns") {
		t.Errorf("a default that nobody can read: %s", got.Out)
	}
	if got := program(t, "--help"); !strings.Contains(got.Out, list) {
		t.Errorf("%s", got.Out)
	}
	if got := program(t, "status", "--help"); !strings.Contains(got.Out, "osqueue --help") {
		t.Errorf("%s", got.Out)
	}
}
