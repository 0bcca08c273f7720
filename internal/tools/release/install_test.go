package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// machine is a root file system of Debian in which no tool of this repository ever ran, and processes in it.
type machine struct {
	t    *testing.T
	root string
	uid  uint32 // of the user osqueue, once the package is there
}

// newMachine makes a machine from the packages of Debian.
func newMachine(t *testing.T) *machine {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can install a package into another root")
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		t.Skip("no mmdebstrap, which makes roots of Debian")
	}
	m := &machine{t: t, root: filepath.Join(t.TempDir(), "root")}
	_, err := output("", nil, "mmdebstrap", "--variant=essential", "--include=passwd", "--dpkgopt=force-unsafe-io",
		`--aptopt=Acquire::Check-Valid-Until "false"`, "bookworm", m.root) // an old list of packages is good enough here
	check(t, err)
	return m
}

// twin returns a copy of a machine.
func (m *machine) twin(name string) *machine {
	m.t.Helper()
	twin := &machine{t: m.t, root: m.root + name}
	_, err := output("", nil, "cp", "-a", m.root, twin.root)
	check(m.t, err)
	return twin
}

// path returns a path of the machine as this process sees it.
func (m *machine) path(name string) string { return filepath.Join(m.root, name) }

// share shows a folder of this process on the machine.
func (m *machine) share(dir, as string) {
	m.t.Helper()
	check(m.t, os.MkdirAll(m.path(as), 0o755))
	check(m.t, syscall.Mount(dir, m.path(as), "", syscall.MS_BIND, ""))
	m.t.Cleanup(func() { check(m.t, syscall.Unmount(m.path(as), 0)) })
}

// command returns a command that runs on the machine.
func (m *machine) command(uid uint32, args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	if !strings.Contains(args[0], "/") {
		cmd.Path, cmd.Err = "/usr/bin/"+args[0], nil
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: m.root, Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return cmd
}

// install does what apt install FILE does if nothing is missing.
func (m *machine) install(file string) {
	m.t.Helper()
	cmd := m.command(0, "dpkg", "--install", file)
	cmd.Dir = "/root"
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("%v: %s", err, out)
	}
	users, err := os.ReadFile(m.path("/etc/passwd"))
	check(m.t, err)
	user := regexp.MustCompile(`(?m)^osqueue:x:(\d+):`).FindSubmatch(users)
	if user == nil {
		m.t.Fatalf("the package made no user: %s", users)
	}
	uid, err := strconv.ParseUint(string(user[1]), 10, 32)
	check(m.t, err)
	m.uid = uint32(uid)
}

// start does what systemctl start osqueue does, without the sandbox: it makes the unit's directories and starts
// the unit's command as the unit's user. stop ends it gracefully.
func (m *machine) start() {
	m.t.Helper()
	unit, err := os.ReadFile(m.path("/usr/lib/systemd/system/osqueue.service"))
	check(m.t, err)
	setting := func(name string) string {
		_, rest, ok := strings.Cut(string(unit), "\n"+name+"=")
		if !ok {
			m.t.Fatalf("the unit has no %s", name)
		}
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	if user := setting("User"); user != "osqueue" {
		m.t.Fatalf("the unit's user is %s", user)
	}
	for _, dir := range strings.Fields(setting("StateDirectory")) {
		dir = m.path("/var/lib/" + dir)
		check(m.t, os.MkdirAll(dir, 0o700))
		check(m.t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			check(m.t, err)
			return os.Chown(path, int(m.uid), int(m.uid))
		}))
	}
	cmd := m.command(m.uid, strings.Fields(setting("ExecStart"))...)
	log := &bytes.Buffer{}
	cmd.Stderr, cmd.WaitDelay = log, time.Second
	check(m.t, cmd.Start())
	m.t.Cleanup(func() {
		check(m.t, cmd.Process.Signal(syscall.SIGTERM))
		limit := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() }) // the unit's TimeoutStopSec
		defer limit.Stop()
		if err := cmd.Wait(); err != nil || m.t.Failed() {
			m.t.Errorf("the node ended: %v\n%s", err, log)
		}
	})
}

// home is the machine of the operator.
type home struct {
	t   *testing.T
	dir string
}

// run runs a line of a shell.
func (h *home) run(line string) string {
	h.t.Helper()
	out, err := output(h.dir, []string{"PATH=" + h.dir + ":" + os.Getenv("PATH"), "XDG_CONFIG_HOME=" + filepath.Join(h.dir, "config")}, "bash", "-euc", line)
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

var (
	copied = regexp.MustCompile(`^scp (?:-r )?(\S+) root@\S+:(\S*)$`)
	lines  = regexp.MustCompile(`(?m)^    (n1#|\$) (.+)$`)
)

// Each command of docs/operations/install.md does what the page says, and the cluster runs a job. The addresses are
// some of loopback, and an editor has changed the settings as the page says.
func TestInstallOnThreeMachines(t *testing.T) {
	first := newMachine(t)
	machines := []*machine{first, first.twin("2"), first.twin("3")}
	page, err := os.ReadFile(filepath.Join(root, "docs/operations/install.md"))
	check(t, err)
	h, bucket := &home{t: t, dir: filepath.Dir(program(t))}, t.TempDir()
	check(t, os.Chmod(bucket, 0o777)) // the users of the machines have numbers of their own
	check(t, os.WriteFile(filepath.Join(h.dir, "osqueue_0.1.0-1_amd64.deb"), artefact(t, "osqueue_0.1.0-1_amd64.deb"), 0o644))
	for _, m := range machines {
		m.share(bucket, "/srv/osqueue")
	}
	_, section, _ := strings.Cut(string(page), "\n## Three machines\n")
	section, _, _ = strings.Cut(section, "\n## ")
	onNode, each := 0, []string{}
	for _, line := range append(lines.FindAllStringSubmatch(section, -1), []string{"", "", ""}) {
		if line[1] == "n1#" || strings.Contains(line[2], "root@") {
			each = append(each, line[2])
			continue
		}
		for i, m := range machines { // what the page says about n1 is done for each
			for _, command := range each {
				command = strings.NewReplacer("n1", fmt.Sprint("n", i+1), "10.0.0.1", fmt.Sprint("10.0.0.", i+1)).Replace(command)
				m.follow(h, i+1, command)
			}
		}
		onNode, each = max(onNode, len(each)), nil
		if line[2] != "" {
			t.Log(line[2])
			t.Log(h.run(loopback(line[2])))
		}
	}
	if onNode == 0 || onNode > 6 {
		t.Errorf("%d commands for a node", onNode)
	}

	check(t, os.WriteFile(machines[0].path("/root/worker.token"), []byte(h.run("cat ready/worker/worker.token")), 0o600))
	check(t, os.WriteFile(machines[0].path("/root/ca.crt"), []byte(h.run("cat certs/ca.crt")), 0o600))
	worker := machines[0].command(0, "osqueue", "worker", "--servers", "127.90.0.1:8080", "--ca", "/root/ca.crt", "--token-file", "/root/worker.token",
		"--exec", "version=osqueue version")
	check(t, worker.Start())
	defer func() {
		_ = worker.Process.Signal(syscall.SIGTERM)
		_ = worker.Wait()
	}()
	if result := h.run("osqueue submit version '{}' --wait"); !strings.HasPrefix(result, `"osqueue `+version+`\n`) {
		t.Errorf("the job's result is %s", result)
	}
	if metrics := h.run(`osqueue status --json`); strings.Count(metrics, `"version":"v0.1.0"`) != 3 {
		t.Errorf("%s", metrics)
	}
}

func loopback(text string) string { return strings.ReplaceAll(text, "10.0.0.", "127.90.0.") }

// follow does what a command of the page does, for the node of a number.
func (m *machine) follow(h *home, number int, command string) {
	m.t.Helper()
	m.t.Logf("n%d: %s", number, command)
	switch file := copied.FindStringSubmatch(command); {
	case file != nil:
		to := file[2]
		if to == "" {
			to = "/root/"
		}
		h.run("cp -r " + file[1] + " " + m.path(to) + strings.Repeat("/", strings.Count(to[len(to)-1:], "/")))
	case strings.HasPrefix(command, "apt install "):
		m.install(strings.TrimPrefix(command, "apt install "))
	case command == "editor /etc/osqueue/osqueue.yaml":
		m.edit("/etc/osqueue/osqueue.yaml", number)
	case command == "systemctl enable --now osqueue":
		m.start()
	default:
		m.t.Fatalf("this test does not know %q", command)
	}
}

// edit gives the settings of node 1 to another one.
func (m *machine) edit(file string, number int) {
	m.t.Helper()
	text, err := os.ReadFile(m.path(file))
	check(m.t, err)
	own := strings.NewReplacer("n1", fmt.Sprint("n", number), "10.0.0.1", fmt.Sprint("10.0.0.", number))
	edited := strings.Split(string(text), "\n")
	for i, line := range edited {
		switch {
		case strings.HasPrefix(line, "bucket:"):
			edited[i] = "bucket: file:///srv/osqueue"
		case !strings.HasPrefix(line, "peers:"):
			edited[i] = own.Replace(line)
		}
	}
	check(m.t, os.WriteFile(m.path(file), []byte(loopback(strings.Join(edited, "\n"))), 0o644))
}
