package sandbox

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Attacks on the machine, the bucket and the nodes from the level Process: system calls,
// sockets, and objects that outlive the command.
func TestEscapesFromProcess(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	check(t, err)
	const libc = "import ctypes,os;c=ctypes.CDLL(None,use_errno=True);print(c.syscall(%NR,%ARGS),ctypes.get_errno())"
	call := func(nr int, args string) Command {
		return py(strings.NewReplacer("%NR", strconv.Itoa(nr), "%ARGS", args).Replace(libc))
	}
	socket := func(family, kind string) Command {
		return py("import socket\ntry: socket.socket(" + family + "," + kind + "); print('opened')\nexcept OSError as e: print(-1, e.errno)")
	}
	b := bench(t, Process, small)
	for name, cmd := range map[string]Command{
		"unshare of a user namespace": call(unix.SYS_UNSHARE, "0x10000000"),
		"clone into a user namespace": call(unix.SYS_CLONE, "0x10000011,0,0,0,0"),
		"mount":                       call(unix.SYS_MOUNT, "0,0,0,0,0"),
		"ptrace":                      call(unix.SYS_PTRACE, "16,os.getppid(),0,0"),
		"add_key":                     call(unix.SYS_ADD_KEY, "0,0,0,0,0"),
		"keyctl":                      call(unix.SYS_KEYCTL, "0,0,0,0,0"),
		"io_uring_setup":              call(unix.SYS_IO_URING_SETUP, "4,0"),
		"userfaultfd":                 call(unix.SYS_USERFAULTFD, "0"),
		"bpf":                         call(unix.SYS_BPF, "0,0,0"),
		"perf_event_open":             call(unix.SYS_PERF_EVENT_OPEN, "0,0,0,0,0"),
		"personality":                 call(unix.SYS_PERSONALITY, "0x40000"),
		"shmget, which stays behind":  call(unix.SYS_SHMGET, "0,4096,0o1600"),
		"msgget":                      call(unix.SYS_MSGGET, "0,0o1600"),
		"semget":                      call(unix.SYS_SEMGET, "0,1,0o1600"),
		"mq_open":                     call(unix.SYS_MQ_OPEN, "b'osqueue',0o102,0o600,0"),
		"a port of a node":            py("import socket\ntry: socket.create_connection(('127.0.0.1'," + port + ")); print('opened')\nexcept OSError as e: print(-1, e.errno)"),
		"UDP":                         socket("socket.AF_INET", "socket.SOCK_DGRAM"),
		"a socket of the machine":     socket("socket.AF_UNIX", "socket.SOCK_STREAM"),
		"netlink":                     socket("16", "socket.SOCK_RAW"),
		"vsock":                       socket("40", "socket.SOCK_STREAM"),
	} {
		t.Run(name, func(t *testing.T) {
			if got := output(t, b, cmd); !strings.HasPrefix(got, "-1 ") {
				t.Errorf("got %q", got)
			}
		})
	}
	if got := output(t, b, py("import socket,subprocess,threading\na,b=socket.socketpair(); t=threading.Thread(target=a.send,args=(b'x',)); t.start(); t.join()\nprint(b.recv(1), subprocess.run(['/bin/echo','y'],capture_output=True).stdout)")); !strings.Contains(got, "b'x' b'y") {
		t.Errorf("an honest command: %q", got)
	}
}

// With Landlock a command of Process reaches its own directory and the system's files.
func TestFilesOutsideOfProcess(t *testing.T) {
	if abi, err := ll.LandlockGetABIVersion(); err != nil {
		t.Skipf("the kernel has no Landlock: %v", err)
	} else {
		t.Logf("Landlock %d", abi)
	}
	bucket := openDir(t)
	document := filepath.Join(bucket, "queue.json")
	check(t, os.WriteFile(document, []byte("jobs"), 0o666))
	check(t, os.Chmod(bucket, 0o777))
	b := bench(t, Process, small)
	for _, script := range []string{
		"cat " + document, "ls " + bucket, "echo x >" + document, "echo x >" + bucket + "/new", "mkdir " + bucket + "/d",
		"cat /etc/machine-id /etc/fstab", "ls /root /home /srv", "echo x >/tmp/left", "echo x >/dev/shm/left", "echo x >/var/tmp/left",
		"ln -s " + document + " l && cat l", "ln /etc/passwd p", "cp /bin/ls " + bucket + "/x",
	} {
		if res, err := b.Run(limited(t), sh(script)); err == nil {
			t.Errorf("%s: %s", script, res.Stdout)
		}
	}
	if got := output(t, b, sh("mkdir d; echo a >d/a; mv d/a b; cat b; cat /proc/self/comm; id -u >/dev/null; ls /usr >/dev/null && echo ok")); got != "a\ncat\nok\n" {
		t.Errorf("an honest command: %q", got)
	}
}

func TestReadOnlyPathsOfProcess(t *testing.T) {
	shared := openDir(t)
	check(t, os.WriteFile(filepath.Join(shared, "f"), []byte("shared"), 0o644))
	b := bench(t, Process, small, func(c *Config) { c.ReadOnly, c.Net = []string{shared}, NetHost })
	if got := output(t, b, sh("cat "+shared+"/f")); got != "shared" {
		t.Errorf("got %q", got)
	}
	if got := output(t, b, py("import socket; socket.socket(); print('opened')")); got != "opened\n" {
		t.Errorf("with the machine's network: %q", got)
	}
	if !strings.Contains(b.Describe(), "the machine's network") {
		t.Error(b.Describe())
	}
}

func TestRequiredParts(t *testing.T) {
	if _, err := New(t.Context(), Config{Level: Process, NoCgroup: true, RequireCgroup: true}); err == nil {
		t.Error("control groups are both required and disabled: remove one of the two settings")
	}
	if g, fact := findCgroups(); g == nil || !g.memory || !g.pids {
		if _, err := New(t.Context(), Config{Level: Process, Limits: small, Dir: t.TempDir(), RequireCgroup: true}); err == nil || !strings.Contains(err.Error(), "control groups are required") {
			t.Errorf("%s: %v", fact, err)
		}
		if g != nil {
			if err := g.close(); err != nil {
				t.Error(err)
			}
		}
	}
}
