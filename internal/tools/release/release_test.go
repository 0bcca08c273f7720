package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/sassoftware/go-rpmutils"
)

const (
	root    = "../../.."
	version = "v0.1.0" // it has a section in CHANGELOG.md
	number  = "0.1.0"
)

// dist has the artefacts of the last commit, for two of the targets: the others take two minutes more.
var (
	dist   string
	builds = allTargets[:2]
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "osqueue-dist-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		dist = filepath.Join(dir, "dist")
		if err := run(version, root, dist, builds, func(f string, a ...any) { fmt.Printf(f+"\n", a...) }); err != nil {
			fmt.Println("release:", err)
			return 1
		}
		return m.Run()
	}())
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func artefact(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dist, name))
	check(t, err)
	return data
}

// untar writes the files of an archive into dir, and returns their names.
func untar(t *testing.T, name, dir string) (names []string) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(artefact(t, name)))
	check(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		check(t, err)
		data, err := io.ReadAll(r)
		check(t, err)
		path := filepath.Join(dir, h.Name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, data, h.FileInfo().Mode()))
		names = append(names, h.Name)
	}
}

// program returns the path of the program of this platform, from its archive.
func program(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	untar(t, fmt.Sprintf("osqueue_%s_%s_%s.tar.gz", number, runtime.GOOS, runtime.GOARCH), dir)
	return filepath.Join(dir, "osqueue")
}

// The same commit makes the same bytes in another folder, zone and umask.
func TestReproducible(t *testing.T) {
	t.Setenv("TZ", "Asia/Tokyo")
	t.Setenv("LC_ALL", "C")
	defer syscall.Umask(syscall.Umask(0o077))
	again := filepath.Join(t.TempDir(), "again")
	check(t, run(version, root, again, builds, t.Logf))
	sums, err := os.ReadFile(filepath.Join(again, sumsFile))
	check(t, err)
	if got, want := strings.Split(string(sums), "\n"), strings.Split(string(artefact(t, sumsFile)), "\n"); !slices.Equal(got, want) {
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Errorf("%s\nwas %s", got[i], want[i])
			}
		}
	}
}

// The program needs no libraries, and says which build it is.
func TestProgram(t *testing.T) {
	path := program(t)
	f, err := elf.Open(path)
	check(t, err)
	if libs, err := f.ImportedLibraries(); err != nil || len(libs) > 0 {
		t.Errorf("the program needs %s (%v)", libs, err)
	}
	head, err := output(root, nil, "git", "log", "-1", "--format=%H")
	check(t, err)
	want := regexp.MustCompile(`^osqueue v0\.1\.0\ncommit ` + head + `\ndate 20[0-9-]+T[0-9:]+Z\ngo ` + regexp.QuoteMeta(runtime.Version()) + `\nfeature level \d+$`)
	if got, err := output("", nil, path, "version"); err != nil || !want.MatchString(got) {
		t.Errorf("%s (%v)", got, err)
	}
	if got, err := output("", nil, path, "--version"); err != nil || got != "osqueue "+version {
		t.Errorf("%s (%v)", got, err)
	}
}

func TestMaterials(t *testing.T) {
	bom := cdx.NewBOM()
	check(t, json.Unmarshal(artefact(t, "osqueue_0.1.0_linux_arm64.cdx.json"), bom))
	raft := slices.IndexFunc(*bom.Components, func(c cdx.Component) bool { return c.Name == "github.com/hashicorp/raft" })
	if raft < 0 || !strings.HasPrefix((*bom.Components)[raft].PackageURL, "pkg:golang/github.com/hashicorp/raft@v1.") {
		t.Errorf("raft is not among %d modules", len(*bom.Components))
	}
	if bom.Metadata.Component.Version != version || len(*bom.Components) < 50 {
		t.Errorf("%+v, %d modules", bom.Metadata.Component, len(*bom.Components))
	}
	if notes := string(artefact(t, "release-notes.md")); !strings.HasPrefix(notes, "# osqueue 0.1.0") || strings.Contains(notes, "\n## ") {
		t.Errorf("%s", notes)
	}
}

func TestMistakes(t *testing.T) {
	for version, want := range map[string]string{"0.1.0": "v0.1.0", "v0.1": "v0.1.0", "v9.9.9": "no section [9.9.9]"} {
		if err := run(version, root, filepath.Join(t.TempDir(), "dist"), builds, t.Logf); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", version, err)
		}
	}
	if err := run(version, root, dist, builds, t.Logf); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Error(err)
	}
}

// The RPM has the files of the package for Debian, at the places of its distributions.
func TestRPM(t *testing.T) {
	for _, name := range []string{"osqueue-0.1.0-1.x86_64.rpm", "osqueue-0.1.0-1.aarch64.rpm"} {
		rpm, err := rpmutils.ReadRpm(bytes.NewReader(artefact(t, name)))
		check(t, err)
		files, err := rpm.Header.GetFiles()
		check(t, err)
		got := map[string]int{}
		for _, f := range files {
			got[f.Name()] = f.Mode() & 0o777
			if f.UserName() != "root" {
				t.Errorf("%s belongs to %s", f.Name(), f.UserName())
			}
		}
		for file, mode := range map[string]int{
			"/usr/bin/osqueue": 0o755, "/usr/lib/systemd/system/osqueue.service": 0o644, "/usr/lib/systemd/system/osqueue-worker.service": 0o644,
			"/etc/osqueue/osqueue.yaml": 0o644, "/etc/osqueue/osqueue.env": 0o600, "/usr/share/man/man1/osqueue-serve.1.gz": 0o644,
			"/usr/share/zsh/site-functions/_osqueue": 0o644, "/usr/share/bash-completion/completions/osqueue": 0o644,
		} {
			if got[file] != mode {
				t.Errorf("%s: %s has the mode %o", name, file, got[file])
			}
		}
		dir := t.TempDir()
		check(t, rpm.ExpandPayload(dir))
		program := filepath.Join(dir, "usr/bin/osqueue")
		check(t, os.Chmod(program, 0o755))
		if out, err := output("", nil, program, "--version"); strings.Contains(name, "x86_64") && out != "osqueue "+version {
			t.Errorf("%s (%v)", out, err)
		}
	}
}

// The packages of the clients are what pip and node take.
func TestClients(t *testing.T) {
	dir := t.TempDir()
	untar(t, "osqueue-js-0.1.0.tgz", dir)
	check(t, os.MkdirAll(filepath.Join(dir, "node_modules"), 0o755))
	check(t, os.Rename(filepath.Join(dir, "package"), filepath.Join(dir, "node_modules/osqueue")))
	const script = `import { Client } from "osqueue"; console.log(typeof Client)`
	for _, c := range []struct{ want, tool, args string }{
		{"function", "node", "--input-type=module\n-e\n" + script},
		{"", "python3", "-m\nzipfile\n-e\n" + filepath.Join(dist, "osqueue-0.1.0-py3-none-any.whl") + "\n."},
		{"0.1.0 <class 'osqueue.Client'>", "python3", "-c\nimport importlib.metadata as m, osqueue; print(m.version('osqueue'), osqueue.Client)"},
	} {
		if _, err := exec.LookPath(c.tool); err != nil {
			t.Skipf("no %s", c.tool)
		}
		if got, err := output(dir, []string{"PYTHONPATH=" + dir}, c.tool, strings.Split(c.args, "\n")...); err != nil || got != c.want {
			t.Errorf("%s: %q (%v)", c.tool, got, err)
		}
	}
}
