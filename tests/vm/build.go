//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"osqueue/tests/vm/plan"
)

// sandboxTests is the path of the tests in the machine.
const sandboxTests = "/tests/sandbox.test"

// tooSlow are tests that take too long in emulation, or in which another timeout then expires
// before the tested one: TestNotRoot runs the hostile commands a second time.
const tooSlow = "TestManyThatEndAtOnce|TestNotRoot|TestLastOnesMayEnd|TestHostileCommandsFail/.*/(many_empty_files|200_MB_to_stderr)"

// inAService are the tests of limits by control groups. The worker that is killed in another
// test starts in the leaf of the test's own group, where it is not alone.
const inAService = "Told|Weight|Sum|InMemory|ForkBomb|AllProcesses"

// thePlan returns the plan of the machine: for all tests, or for those that match a pattern.
func thePlan(limit time.Duration, only string) plan.Plan {
	all, service := ".", inAService
	if only != "" {
		all, service = only, only
	}
	require := []string{"OSQUEUE_TEST_SANDBOX=require", "OSQUEUE_TEST_CGROUPS=require"}
	return plan.Plan{Runs: []plan.Run{
		{
			Name: "all tests of the sandbox, in the root of the control groups",
			Args: []string{sandboxTests, "-test.v", "-test.run", all, "-test.skip", tooSlow},
			Env:  require, Limit: limit,
		},
		{
			Name: "the control groups, as a service to which its own is delegated",
			Args: []string{sandboxTests, "-test.v", "-test.run", service},
			Env:  require, Limit: limit,
			Group: "service",
		},
	}}
}

// buildTests builds the programs of the machine, and writes them with the plan to an archive in
// dir.
func buildTests(ctx context.Context, dir, arch string, p plan.Plan) (file string, err error) {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write the plan: %w", err)
	}
	work, err := os.MkdirTemp(dir, "building-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	at := func(name string) string { return filepath.Join(work, name) }
	if err := os.WriteFile(at("plan.json"), text, 0o600); err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"build", "-buildvcs=false", "-o", at("init"), "./tests/vm/init"},
		{"test", "-c", "-buildvcs=false", "-o", at("sandbox.test"), "./internal/sandbox"},
	} {
		if err := command(ctx, "", "env", append([]string{"CGO_ENABLED=0", "GOARCH=" + arch, "go"}, args...)...); err != nil {
			return "", err
		}
	}
	file = filepath.Join(dir, "tests.cpio")
	return file, writeArchive(file, func(a *archive) error {
		for name, in := range map[string]string{"init": "init", "plan.json": plan.File[1:]} {
			if err := a.file(at(name), in); err != nil {
				return err
			}
		}
		if err := a.dir(filepath.Dir(sandboxTests)[1:]); err != nil {
			return err
		}
		return a.file(at("sandbox.test"), sandboxTests[1:])
	})
}
