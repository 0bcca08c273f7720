package attack

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elastic/go-seccomp-bpf/arch"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
)

// attempts is the beginning of the scripts of jobs. They say ESCAPED with each thing that a job
// must not be able to do, and at the end that they were held.
const attempts = `
import ctypes, errno, os, signal, socket, stat, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def escaped(what): print("ESCAPED:", what, flush=True)
def tried(what, fn):
  try: got = fn()
  except (OSError, ValueError): return # ValueError: of setrlimit
  if got is not False: escaped(what)
def call(what, name, *args):
  if libc.syscall(numbers[name], *[ctypes.c_long(a) if isinstance(a, int) else a for a in args]) >= 0: escaped(what)
def connects(family, address):
  s = socket.socket(family, socket.SOCK_STREAM)
  s.settimeout(2)
  s.connect(address)
worker = int(sys.argv[1])
`

// escape is a job that tries to leave its sandbox.
type escape struct {
	name   string
	script string // Python, after attempts
	shell  string // in place of script
	// ends is a part of the error of the job, if a limit ends it; "": it must be held.
	ends []string
}

// Jobs that try to leave their sandbox, or to harm the machine, at both levels: each is held or
// ended for a named reason, and the worker lives, and does the next job.
func TestSandboxEscapes(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only a worker that is root keeps jobs apart at both levels (docs/worker.md)")
	}
	for _, level := range []string{"process", "namespace"} {
		if _, err := exec.LookPath("bwrap"); level == "namespace" && err != nil {
			if os.Getenv("OSQUEUE_TEST_SANDBOX") == "require" {
				t.Fatal("OSQUEUE_TEST_SANDBOX=require, but bubblewrap is not installed")
			}
			t.Log("namespace is not tested: bubblewrap is not installed")
			continue
		}
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			attackSandbox(t, level)
		})
	}
}

func attackSandbox(t *testing.T, level string) {
	g := shareTarget(t)
	n := g.Nodes[0]
	// The victims of the jobs are outside of their directories, and open to all users.
	outside := filepath.Join(os.TempDir(), fmt.Sprintf("osqueue-attack-%d-%s", os.Getpid(), level)) //nolint:usetesting // t.TempDir is for the user of the test alone
	if err := os.MkdirAll(outside, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(outside) })
	treasure := filepath.Join(outside, "treasure")
	if err := os.WriteFile(treasure, []byte("gold"), 0o600); err != nil {
		t.Fatal(err)
	}
	if landlock() { // without it jobs of process may write where all users may
		for path, mode := range map[string]os.FileMode{outside: 0o777, treasure: 0o666} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	first := map[string]int{"process": 1_940_000_000, "namespace": 1_940_001_000}[level]
	work := func(jobType, limit string) *cluster.Worker {
		jobType = g.Own(jobType)
		defer func() { first += 32 }()
		return g.StartWorker("of-"+jobType, "--commands", jobType, "--sandbox", level, "--concurrency", "2", "--limit-time", limit, "--limit-cpu", "3s",
			"--limit-memory", "256MiB", "--limit-processes", "24", "--limit-disk", "8MiB", "--limit-file-size", "2MiB",
			"--sandbox-uids", fmt.Sprintf("%d-%d", first, first+31))
	}
	// A loaded machine takes its time; jobs that do not end by themselves get little.
	w, brief := work("c", "2m"), work("brief", "4s")
	s := &sandboxed{target: g, t: t}
	if j := s.run("c", "who", []string{"/usr/bin/id", "-u"}); j.LastError != "" || strings.TrimSpace(outOf(t, j).Stdout) == "0" {
		t.Fatalf("a good job: %+v", j)
	}
	bucket := strings.TrimPrefix(g.Bucket(), "file://")
	numbers := systemCalls(t)
	for _, e := range escapes(n, bucket, outside) {
		g.attack(e.name, func(t *testing.T) {
			argv := []string{"/usr/bin/python3", "-Ic", "numbers = " + numbers + attempts + e.script + "\nprint('held', flush=True)", fmt.Sprint(w.Pid())}
			if e.shell != "" {
				argv = []string{"/bin/sh", "-c", e.shell}
			}
			jobType := "c"
			if slices.Contains(e.ends, "timeout") {
				jobType = "brief"
			}
			s.check(t, e, s.run(jobType, strings.ReplaceAll(e.name, " ", "-"), argv))
		})
		if text, err := os.ReadFile(treasure); err != nil || string(text) != "gold" {
			t.Fatalf("%s: the file outside is changed: %q %v", e.name, text, err)
		}
		if !w.Running() || !brief.Running() {
			t.Fatalf("%s: the worker has ended", e.name)
		}
	}
	if j := s.run("brief", "next", []string{"/bin/echo", "fine"}); outOf(t, j).Stdout != "fine\n" {
		t.Errorf("the next job: %+v", j)
	}
	if j := s.run("c", "last", []string{"/bin/echo", "fine"}); outOf(t, j).Stdout != "fine\n" {
		t.Errorf("the last job: %+v", j)
	}
	g.settled()
}

// systemCalls are the numbers of this processor's system calls as a dict of Python.
func systemCalls(t *testing.T) string {
	t.Helper()
	native, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(native.SyscallNames)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// landlock reports whether the kernel has Landlock.
func landlock() bool {
	_, err := ll.LandlockGetABIVersion()
	return err == nil
}

// sandboxed is a cluster with a worker.
type sandboxed struct {
	*target
	t *testing.T
}

// run enqueues a command and waits until it has ended.
func (s *sandboxed) run(jobType, id string, argv []string) *v1.Job {
	s.t.Helper()
	jobType, id = s.Own(jobType), s.Own(id)
	payload, err := json.Marshal(map[string]any{"argv": argv})
	if err != nil {
		s.t.Fatal(err)
	}
	n := s.Nodes[0]
	body, err := json.Marshal(map[string]any{"id": id, "type": jobType, "payload": json.RawMessage(payload), "maxAttempts": 1})
	if err != nil {
		s.t.Fatal(err)
	}
	if a := try(s.t, n, "POST", v1.PathJobs, "", string(body)); a.StatusCode != http.StatusOK {
		s.t.Fatal(a.Body)
	}
	job := new(v1.Job)
	s.Eventually(150*time.Second, "the end of "+id, func() error {
		a := try(s.t, n, "GET", v1.PathJobs+"/"+id, "", "")
		job = new(v1.Job)
		if err := json.Unmarshal([]byte(a.Body), job); err != nil {
			return err
		}
		if job.Status != v1.StatusCompleted && job.Status != v1.StatusDead {
			return fmt.Errorf("it is %s", job.Status)
		}
		return nil
	})
	return job
}

// said is the result of a command.
type said struct {
	Exit           int
	Stdout, Stderr string
}

func outOf(t *testing.T, j *v1.Job) (s said) {
	t.Helper()
	if err := json.Unmarshal(j.Result, &s); err != nil {
		t.Errorf("%s is %s: %s %s", j.ID, j.Status, j.Result, j.LastError)
	}
	return s
}

func (s *sandboxed) check(t *testing.T, e escape, j *v1.Job) {
	t.Helper()
	if strings.Contains(string(j.Result)+j.LastError, "ESCAPED") {
		t.Errorf("%s %s", j.Result, j.LastError)
	}
	if len(e.ends) > 0 {
		for _, part := range e.ends {
			if strings.Contains(j.LastError+string(j.Result), part) {
				return
			}
		}
		t.Errorf("it ended otherwise: %s %s %s", j.Status, j.Result, j.LastError)
		return
	}
	if got := outOf(t, j); got.Exit != 0 || !strings.HasSuffix(got.Stdout, "held\n") {
		t.Errorf("it ended before its end: %+v", got)
	}
}

// escapes are the rows of the table.
func escapes(n *cluster.Node, bucket, outside string) []escape {
	httpHost, httpPort := split(n.HTTP)
	raftHost, raftPort := split(n.Raft)
	tcp := func(host, port string) string {
		return fmt.Sprintf("tried('connect to %[1]s:%[2]s', lambda: connects(socket.AF_INET, ('%[1]s', %[2]s)))\n", host, port)
	}
	return []escape{
		{name: "reach the client port", script: tcp(httpHost, httpPort)},
		{name: "reach the node port", script: tcp(raftHost, raftPort)},
		{name: "reach the bucket on the network", script: tcp("192.0.2.1", "443") + tcp("1.1.1.1", "443")},
		{name: "reach the metadata of the machine", script: tcp("169.254.169.254", "80") +
			"tried('fd00:ec2::254', lambda: connects(socket.AF_INET6, ('fd00:ec2::254', 80)))"},
		{name: "reach the admin socket", script: fmt.Sprintf("tried('the admin socket', lambda: connects(socket.AF_UNIX, %q))", filepath.Join(n.Dir, "data", "admin.sock"))},
		{name: "make raw and odd sockets", script: `
for family, kind in ((socket.AF_INET, socket.SOCK_RAW), (socket.AF_PACKET, socket.SOCK_RAW), (16, socket.SOCK_RAW), (38, 5), (40, socket.SOCK_STREAM)):
  tried('socket %d %d' % (family, kind), lambda: socket.socket(family, kind))`},
		{name: "read the bucket", script: fmt.Sprintf("tried('read queue.json', lambda: open(%q).read())", filepath.Join(bucket, "queue.json"))},
		{name: "write the bucket", script: fmt.Sprintf("tried('write queue.json', lambda: open(%[1]q, 'w'))\ntried('list the bucket', lambda: os.listdir(%[2]q))", filepath.Join(bucket, "queue.json"), bucket)},
		{name: "read the state of the node", script: fmt.Sprintf("tried('list the data', lambda: os.listdir(%q))", filepath.Join(n.Dir, "data"))},
		{name: "trace the worker", script: `
call('attach', 'ptrace', 16, worker, 0, 0)
call('seize', 'ptrace', 0x4206, worker, 0, 0)
call('trace the parent', 'ptrace', 16, os.getppid(), 0, 0)`},
		{name: "read the worker's memory", script: `
for what in ('mem', 'environ', 'maps', 'fd', 'cwd', 'root', 'exe'):
  p = '/proc/%d/%s' % (worker, what)
  tried(p, lambda: (os.listdir if what == 'fd' else os.readlink if what in ('cwd', 'root', 'exe') else lambda q: open(q, 'rb').read(1))(p))
buf = ctypes.create_string_buffer(8)
class iov(ctypes.Structure): _fields_ = [('b', ctypes.c_void_p), ('n', ctypes.c_size_t)]
local, remote = iov(ctypes.addressof(buf), 8), iov(0x400000, 8)
call('process_vm_readv', 'process_vm_readv', worker, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
call('process_vm_writev', 'process_vm_writev', worker, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)`},
		{name: "take the worker's descriptors", script: `
for f in os.listdir('/proc/self/fd'):
  if int(f) > 2: # the list itself is closed by now
    tried('descriptor ' + f, lambda: os.readlink('/proc/self/fd/' + f))
fd = libc.syscall(numbers['pidfd_open'], worker, 0)
if fd >= 0: call('pidfd_getfd', 'pidfd_getfd', fd, 0, 0)`},
		{name: "signal the worker", script: `
for sig in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, 0):
  tried('signal %d' % sig, lambda: os.kill(worker, sig)) if os.path.exists('/proc/%d/stat' % worker) and 'osqueue' in open('/proc/%d/stat' % worker).read() else None
tried('pidfd', lambda: signal.pidfd_send_signal(os.pidfd_open(worker), signal.SIGKILL)) if worker > 64 else None`},
		{name: "kill everything", shell: `kill -9 -1; echo held`, ends: []string{"held", "exit", "signal"}},
		{name: "write outside of the directory", script: fmt.Sprintf(`
for p in ('/etc/x', '/usr/x', '/usr/bin/id', '/lib/x', '/var/x', '/root/x', '/x', '/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/sys/kernel/x', %[1]q + '/x', %[1]q + '/treasure'):
  tried('write ' + p, lambda: open(p, 'a').write('x'))
tried('above the home', lambda: open(os.path.join(os.environ['HOME'], '..', 'x'), 'w'))`, outside)},
		{name: "change files outside", script: fmt.Sprintf(`
t = %[1]q + '/treasure'
for what, fn in (('unlink', lambda: os.unlink(t)), ('chmod', lambda: os.chmod(t, 0)), ('truncate', lambda: os.truncate(t, 0)), ('rename', lambda: os.rename(t, t + '2')), ('link', lambda: os.link(t, 'here'))):
  tried(what, fn)`, outside)},
		{name: "leave symlinks to the outside", script: fmt.Sprintf(`
os.symlink(%[1]q, 'dir'); os.symlink(%[1]q + '/treasure', 'file'); os.symlink('/', 'root'); os.symlink('/proc/1/root', 'other')
os.mkdir('d'); os.symlink(%[1]q, 'd/d'); os.symlink('..', 'd/up')
tried('through a link', lambda: open('dir/treasure', 'a').write('x'))`, outside)},
		{name: "leave a directory that cannot be removed", script: `
os.makedirs('a/b/c'); open('a/b/c/f', 'w'); os.chmod('a/b/c', 0); os.chmod('a/b', 0); os.chmod('a', 0)`},
		{name: "become root", script: `
for what, fn in (('setuid', lambda: os.setuid(0)), ('setgid', lambda: os.setgid(0)), ('setresuid', lambda: os.setresuid(0, 0, 0)), ('setgroups', lambda: os.setgroups([0]))):
  if os.getuid() != 0: tried(what, fn)
import subprocess
for p in ('/bin/su', '/usr/bin/su', '/usr/bin/passwd', '/usr/bin/sudo', '/usr/bin/mount'):
  try: subprocess.run([p, '-c', 'id -u'], input=b'', capture_output=True, timeout=5)
  except (OSError, subprocess.TimeoutExpired): pass
if 'NoNewPrivs:\t1' not in open('/proc/self/status').read(): escaped('new privileges')`},
		{name: "make a setuid program", script: `
import shutil, subprocess
shutil.copy('/usr/bin/id', 'id'); os.chmod('id', 0o6755)
mine = os.getuid()
try: got = subprocess.run(['./id', '-u'], capture_output=True).stdout
except OSError: got = b''
if got.strip() == b'0': escaped('it runs as root')`},
		{name: "mount", script: `
call('mount', 'mount', b'none', b'/tmp', b'tmpfs', 0, 0)
call('remount', 'mount', b'none', b'/', b'none', 0x20 | 0x1000, 0)
call('umount', 'umount2', b'/proc', 2)
call('pivot_root', 'pivot_root', b'.', b'.')
call('open_tree', 'open_tree', -100, b'/', 1)
call('fsopen', 'fsopen', b'tmpfs', 0)
call('chroot', 'chroot', b'.')`},
		{name: "make namespaces", script: `
for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000): call('unshare %x' % flag, 'unshare', flag)
call('setns', 'setns', 0, 0)
call('clone with a user namespace', 'clone', 0x10000000 | 17, 0, 0, 0, 0)`},
		{name: "use keys", script: `
call('add_key', 'add_key', b'user', b'k', b'v', 1, -3)
call('request_key', 'request_key', b'user', b'k', 0, -3)
call('keyctl', 'keyctl', 0, -3, 1)`},
		{name: "use bpf and friends", script: `
buf = ctypes.create_string_buffer(128)
call('bpf', 'bpf', 0, buf, 72)
call('perf_event_open', 'perf_event_open', buf, 0, -1, -1, 0)
call('userfaultfd', 'userfaultfd', 0)
call('io_uring_setup', 'io_uring_setup', 4, buf)
call('fanotify_init', 'fanotify_init', 0, 0)`},
		{name: "load kernels and modules", script: `
call('init_module', 'init_module', b'', 0, b'')
call('finit_module', 'finit_module', 0, b'', 0)
call('kexec_load', 'kexec_load', 0, 0, 0, 0)
call('reboot', 'reboot', 0xfee1dead, 672274793, 0x1234567, 0)
call('swapoff', 'swapoff', b'/x')
call('settimeofday', 'settimeofday', ctypes.create_string_buffer(16), 0)
call('sethostname', 'sethostname', b'x', 1)
if 'iopl' in numbers: call('iopl', 'iopl', 3)`},
		{name: "leave objects of System V", script: `
for what in ('shmget', 'semget', 'msgget'):
  got = libc.syscall(numbers[what], 0, 1 if what == 'semget' else 4096, 0o1666)
mine = open('/proc/self/ns/ipc') and os.readlink('/proc/self/ns/ipc')`},
		{name: "read secrets of the system", script: `
for p in ('/etc/shadow', '/root/.ssh', '/root/.bashrc', '/proc/kcore', '/dev/mem', '/dev/kmsg'):
  tried(p, lambda: os.listdir(p) if os.path.isdir(p) else open(p, 'rb').read(1) or False)
secrets = lambda: b'PATH=' + os.environb[b'PATH'] not in open('/proc/1/environ', 'rb').read() # in its own namespace that of the sandbox
tried('the environment of the first process', secrets)`},
		{name: "raise the limits", script: `
import resource
for what in (resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):
  soft, hard = resource.getrlimit(what)
  if hard == resource.RLIM_INFINITY: escaped('there is no limit %d' % what)
  tried('limit %d' % what, lambda: resource.setrlimit(what, (hard + 1, hard + 1)))
tried('nice', lambda: os.nice(-5))`},
		{name: "fork bomb", script: `
while True:
  try: os.fork()
  except OSError: pass`, ends: []string{"timeout", "more processes", "CPU time", "ESRCH"}},
		{name: "fork bomb of a shell", shell: `bomb() { bomb & bomb; }; bomb`, ends: []string{"exit", "more processes", "timeout", "still ran"}},
		{name: "memory hog", script: `x = bytearray(b'x') * (1 << 30)`, ends: []string{"MemoryError", "more memory"}},
		{name: "memory hogs", script: `
for i in range(8):
  if os.fork() == 0:
    try: x = bytearray(b'x') * (200 << 20)
    except MemoryError: pass
    os._exit(0)
for i in range(8): os.wait()`, ends: []string{"held", "more memory"}},
		{name: "fill the disk", shell: `i=0; while :; do head -c 1000000 /dev/zero >f$i || exit 9; i=$((i+1)); done`, ends: []string{"beyond the limit", "No space left"}},
		{name: "one large file", shell: `exec dd if=/dev/zero of=big bs=1M count=100`, ends: []string{"file larger", "No space left", "File size"}},
		{name: "endless output", shell: `exec cat /dev/zero`, ends: []string{"too much to stdout"}},
		{name: "burn the processor", shell: `while :; do :; done`, ends: []string{"CPU time", "timeout"}},
		{name: "leave a child behind", shell: `setsid sleep 600 </dev/null >/dev/null 2>&1 & exit 0`, ends: []string{"still ran"}},
		{name: "leave a child that hides", script: `
if os.fork() == 0:
  os.setsid()
  if os.fork() == 0:
    for fd in (0, 1, 2): os.close(fd)
    os.execve('/usr/bin/python3', ['[kworker/0:1]', '-Ic', 'import time; time.sleep(600)'], {})
  os._exit(0)
os.wait()
time.sleep(0.5)`, ends: []string{"still ran"}},
		{name: "ignore the end", shell: `trap '' TERM INT HUP; sleep 600 & while :; do wait; done`, ends: []string{"timeout"}},
	}
}

func split(address string) (host, port string) {
	host, port, _ = net.SplitHostPort(address)
	return host, port
}
