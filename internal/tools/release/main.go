// Program release writes everything that a version of osqueue consists of into a directory: binaries, packages for
// Debian and RPM, images, the packages of the clients, the chart, SBOMs, notes and checksums.
//
//	release -version v0.1.0 [-root DIR] [-out dist]
//
// It builds what the last commit has, and nothing that is only in the work tree. The same commit, version and Go make the
// same bytes: every time in an artefact is that of the commit. It is a module of its own, so that what it needs is in no
// other build list. It fails at the first step that fails, and leaves what is there.
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// target is a platform that gets a binary.
type target struct{ os, arch string }

// allTargets are those of a release. The first one is also that of the program that writes manual pages.
var allTargets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

// release is one run.
type release struct {
	version string // v0.1.0
	number  string // 0.1.0
	commit  string
	at      time.Time // of the commit
	root    string    // the repository
	tree    string    // a copy of the commit
	work    string    // for files between two steps
	out     string
	targets []target
	say     func(format string, args ...any)
}

func main() {
	version := flag.String("version", "", "the version, as in v0.1.0")
	root := flag.String("root", ".", "the repository")
	out := flag.String("out", "dist", "directory for the artefacts; it must be empty or not exist")
	flag.Parse()
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	if err := run(*version, *root, *out, allTargets, say); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var versionForm = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// run writes the artefacts of a version for the targets into out.
func run(version, root, out string, targets []target, say func(string, ...any)) error {
	if !versionForm.MatchString(version) {
		return fmt.Errorf("VERSION %q: write it as v0.1.0", version)
	}
	if files, err := os.ReadDir(out); err == nil && len(files) > 0 {
		return fmt.Errorf("%s is not empty: delete it first", out)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "osqueue-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	r := &release{
		version: version, number: version[1:], root: root, out: out, targets: targets, say: say,
		work: work, tree: filepath.Join(work, "tree"),
	}
	for _, step := range []func() error{
		r.readCommit, r.copyTree, r.notes, r.binaries, r.manual, r.packages, r.images, r.clients, r.chart, r.checksums,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// git returns the output of a git command in the repository.
func (r *release) git(args ...string) (string, error) { return output(r.root, nil, "git", args...) }

// output returns what a program writes to stdout, without space at its ends. The error has what it writes to stderr.
func output(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// readCommit reads the commit and its time. A tag of the version must be this commit; without one the run is a trial.
func (r *release) readCommit() error {
	head, err := r.git("log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	commit, seconds, _ := strings.Cut(head, " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("time of commit %s: %w", commit, err)
	}
	r.commit, r.at = commit, time.Unix(unix, 0).UTC()
	switch tagged, err := r.git("rev-parse", "--quiet", "--verify", "refs/tags/"+r.version+"^{commit}"); {
	case err != nil:
		r.say("%s of commit %s, which has no tag %s: a trial", r.version, commit, r.version)
	case tagged != commit:
		return fmt.Errorf("the tag %s is commit %s, and the last commit is %s: check the tag out", r.version, tagged, commit)
	default:
		r.say("%s of commit %s", r.version, commit)
	}
	return nil
}

// copyTree writes the files of the commit into r.tree.
func (r *release) copyTree() error {
	archive := filepath.Join(r.work, "tree.tar")
	if err := os.Mkdir(r.tree, 0o755); err != nil {
		return err
	}
	if _, err := r.git("archive", "--format=tar", "--output="+archive, r.commit); err != nil {
		return err
	}
	_, err := output(r.tree, nil, "tar", "-xf", archive)
	return err
}

// notes writes the section of the version in CHANGELOG.md.
func (r *release) notes() error {
	text, err := r.read("CHANGELOG.md")
	if err != nil {
		return err
	}
	_, section, ok := strings.Cut(string(text), "\n## ["+r.number+"]")
	if !ok {
		return fmt.Errorf("CHANGELOG.md has no section [%s]", r.number)
	}
	section, _, _ = strings.Cut(section, "\n## [")
	return r.write("release-notes.md", []byte("# osqueue "+r.number+strings.TrimRight(section, "\n")+"\n"))
}

// read returns a file of the commit.
func (r *release) read(name string) ([]byte, error) { return os.ReadFile(filepath.Join(r.tree, name)) }

// write writes an artefact.
func (r *release) write(name string, data []byte) error {
	r.say("%8.1f MB  %s", float64(len(data))/1e6, name)
	return os.WriteFile(filepath.Join(r.out, name), data, 0o644)
}

// sumsFile has the checksums, in the form of sha256sum.
const sumsFile = "SHA256SUMS"

func (r *release) checksums() error {
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(r.out, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), f.Name())
	}
	if sums.Len() == 0 {
		return errors.New("no artefact was written")
	}
	return r.write(sumsFile, sums.Bytes())
}
