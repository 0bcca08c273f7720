package sandbox

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func output(t *testing.T, b *Box, c Command) string {
	t.Helper()
	res, err := b.Run(limited(t), c)
	if err != nil {
		t.Fatalf("%v; %s", err, res.Log)
	}
	return string(res.Stdout)
}

// A command sees the variables that it was given, and no others.
func TestEnvironmentIsClean(t *testing.T) {
	t.Setenv("OSQUEUE_TEST_SECRET", "hunter2")
	t.Setenv("OSQUEUE_TEST_PASSED", "yes")
	onLevels(t, plain, func(t *testing.T, b *Box) {
		b.cfg.Env = []string{"OSQUEUE_TEST_PASSED"}
		c := sh("env | sort")
		c.Env = []string{"A=1 2", "LANG=xx"}
		got := output(t, b, c)
		names := ""
		for line := range strings.Lines(got) {
			name, _, _ := strings.Cut(line, "=")
			names += name + " "
		}
		if names != "A HOME LANG OSQUEUE_TEST_PASSED PATH PWD TMPDIR " {
			t.Errorf("%s", got)
		}
		if !strings.Contains(got, "A=1 2\n") || !strings.Contains(got, "LANG=xx\n") || strings.Contains(got, "hunter2") {
			t.Errorf("%s", got)
		}
	})
}

// Python of Debian starts without a word about files that it may not read.
func TestPythonStarts(t *testing.T) {
	onLevels(t, plain, func(t *testing.T, b *Box) {
		c := py("")
		c.Args[1] = "-c" // with all that it reads at the start
		if res, err := b.Run(limited(t), c); err != nil || res.Log != "" {
			t.Errorf("%v; log %s", err, res.Log)
		}
	})
}

// Neither the environment nor the memory nor descriptors of the worker can be
// had, by its number in /proc.
func TestWorkerCannotBeRead(t *testing.T) {
	t.Setenv("OSQUEUE_TEST_SECRET", "hunter2")
	secret := filepath.Join(t.TempDir(), "secret")
	check(t, os.WriteFile(secret, []byte("hunter3"), 0o600))
	held, err := os.Open(secret)
	check(t, err)
	defer held.Close()
	// One that is not marked, as a shell leaves them to what it starts.
	inherited, err := syscall.Dup(int(held.Fd()))
	check(t, err)
	defer syscall.Close(inherited)
	self := strconv.Itoa(os.Getpid())
	onLevels(t, plain, func(t *testing.T, b *Box) {
		got := output(t, b, sh(`cat /proc/`+self+`/environ /proc/`+self+`/fd/* /proc/$PPID/environ `+secret+` 2>&1; ls -l /proc/`+self+`/fd 2>&1; true`))
		if strings.Contains(got, "hunter") && (os.Geteuid() == 0 || b.cfg.Level == Namespace || strings.Contains(got, "hunter2")) {
			t.Errorf("%.2000s", got)
		}
		fds := output(t, b, sh(`exec ls /proc/self/fd`)) // the last is ls's own
		if fds != "0\n1\n2\n3\n" {
			t.Errorf("descriptors %q", fds)
		}
		kill, err := b.Run(limited(t), sh(`kill -0 `+self))
		if (os.Geteuid() == 0 || b.cfg.Level == Namespace) && err == nil {
			t.Errorf("the worker could be signalled: %+v", kill)
		}
	})
}

func TestOwnUserAndDirectory(t *testing.T) {
	onLevels(t, plain, func(t *testing.T, b *Box) {
		got := strings.Fields(output(t, b, sh(`echo x > file; pwd; echo $HOME; echo $TMPDIR; ls; id -u; grep NoNewPrivs /proc/self/status`)))
		if got[0] != got[1] || got[1] != got[2] || got[3] != "file" || got[6] != "1" {
			t.Errorf("%q", got)
		}
		if got[4] == "0" {
			t.Error("the command ran as root")
		}
	})
}

// A namespace cannot reach the machine's services: neither on loopback, nor by an
// abstract socket, nor elsewhere.
func TestNamespaceHasNoNetwork(t *testing.T) {
	b := bench(t, Namespace, small)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer tcp.Close()
	abstract, err := net.Listen("unix", "@osqueue-sandbox-test-"+strconv.Itoa(os.Getpid()))
	check(t, err)
	defer abstract.Close()
	script := `
import socket, sys
def reach(family, address):
  try:
    with socket.socket(family, socket.SOCK_STREAM) as s:
      s.settimeout(3); s.connect(address)
      return "reached"
  except OSError as e: return "refused"
print(reach(socket.AF_INET, ("127.0.0.1", ` + strconv.Itoa(tcp.Addr().(*net.TCPAddr).Port) + `)),
  reach(socket.AF_UNIX, "\0` + abstract.Addr().String()[1:] + `"), reach(socket.AF_INET, ("192.0.2.1", 80)))
for family in (socket.AF_NETLINK, socket.AF_PACKET, socket.AF_VSOCK, socket.AF_ALG):
  try: socket.socket(family, socket.SOCK_RAW if family == socket.AF_PACKET else socket.SOCK_DGRAM); print("family", family)
  except OSError: pass
`
	if got := output(t, b, py(script)); got != "refused refused refused\n" {
		t.Errorf("%s", got)
	}
	// The test can fail: with the network of the machine and without Landlock, the level below
	// reaches it.
	host := func(c *Config) { c.Net, c.NoLandlock = NetHost, true }
	if got := output(t, bench(t, Process, small, host), py(script)); !strings.HasPrefix(got, "reached reached") {
		t.Errorf("without namespace: %s", got)
	}
}

// Of the file system only what programs need is there, and none of it can be
// changed.
func TestNamespaceShowsNoForeignFile(t *testing.T) {
	b := bench(t, Namespace, small)
	script := `for d in /home /root /var /run /srv /opt /sys /boot /etc/passwd /etc/shadow /etc/hostname /etc/hosts; do ls -d $d 2>/dev/null; done
[ "$(hostname)" = osqueue ] || hostname
for d in / /usr /usr/bin /etc /dev /proc /lib /bin; do if echo x > $d/osqueue-test; then echo "wrote to $d"; fi; done 2>/dev/null; ps=$(ls /proc | grep -c '^[0-9]'); [ $ps -lt 8 ] || echo "$ps processes"; true`
	if got := output(t, b, sh(script)); got != "" {
		t.Errorf("%s", got)
	}
}

func TestNamespaceShowsWhatItIsTold(t *testing.T) {
	b := bench(t, Namespace, small)
	dir := openDir(t)
	check(t, os.WriteFile(filepath.Join(dir, "data"), []byte("told"), 0o644))
	b.cfg.ReadOnly = []string{dir}
	if got := output(t, b, sh(`cat `+dir+`/data; echo x > `+dir+`/data 2>/dev/null || echo -kept`)); got != "told-kept\n" {
		t.Errorf("%q", got)
	}
}

// The filter refuses what it names, and lets threads and pipes be.
func TestFilterRefuses(t *testing.T) {
	b := bench(t, Namespace, small)
	script := `
import ctypes, threading, subprocess, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
  ctypes.set_errno(0)
  return "ok" if libc.syscall(*args) >= 0 else errno.errorcode[ctypes.get_errno()]
import platform
n = {"x86_64": dict(unshare=272, ptrace=101, bpf=321, keyctl=250, mount=165, clone3=435, iouring=425),
     "aarch64": dict(unshare=97, ptrace=117, bpf=280, keyctl=219, mount=40, clone3=435, iouring=425)}[platform.machine()]
print(*(call(n[name], 0x10000000 if name == "unshare" else 0, 0, 0, 0, 0) for name in n))
done = []
t = threading.Thread(target=lambda: done.append(1)); t.start(); t.join()
print(done, subprocess.run(["sh", "-c", "echo a | cat"], capture_output=True).stdout)
import fcntl
try: fcntl.ioctl(0, 0x5412, b"x"); print("pushed")
except OSError as e: print(errno.errorcode[e.errno])
ioctl = {"x86_64": 16, "aarch64": 29}[platform.machine()]
print(*(call(ioctl, 0, ctypes.c_ulong(n | 1 << 32), b"x") for n in (0x5412, 0x541c))) # the kernel ignores the upper half
`
	if got := output(t, b, py(script)); got != "EPERM EPERM EPERM EPERM EPERM ENOSYS EPERM\n[1] b'a\\n'\nEPERM\nEPERM EPERM\n" {
		t.Errorf("%s", got)
	}
}

// The numbers of another architecture mean other calls, so a program that uses them is killed.
func TestCallsOfAnotherArchitecture(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the code is for x86-64")
	}
	const getpid = `
import ctypes, mmap
m = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
m.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3") # mov eax, 20; int 0x80; ret
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))())`
	probe := exec.Command("/usr/bin/python3", "-Ic", getpid)
	probe.Dir = t.TempDir()             // for its core dump
	kernelHasThem := probe.Run() == nil // else the instruction is a fault
	if !kernelHasThem {
		t.Log("this kernel has no calls of i386; only those of x32 are tried")
	}
	for _, level := range []Level{Process, Namespace} {
		b := bench(t, level, small)
		res, err := b.Run(limited(t), py(getpid))
		if kernelHasThem && (err == nil || !strings.Contains(err.Error(), "bad system call") && !strings.Contains(err.Error(), "exit status 159")) {
			t.Errorf("%s: %v, %s", level, err, res.Stdout)
		}
		const x32 = 1 << 30
		if got := output(t, b, py("import ctypes; print(ctypes.CDLL(None).syscall("+strconv.Itoa(x32|unix.SYS_GETPID)+"))")); got != "-1\n" {
			t.Errorf("%s: x32: %s", level, got)
		}
	}
}

// Variables of a command do not act on bwrap, which runs outside.
func TestVariablesDoNotReachBwrap(t *testing.T) {
	b := bench(t, Namespace, small)
	c := sh(`echo $LD_DEBUG`)
	c.Env = []string{"LD_DEBUG=libs"}
	res, err := b.Run(limited(t), c)
	if err != nil || string(res.Stdout) != "libs\n" || strings.Contains(res.Log, "bwrap") {
		t.Errorf("%v, %+v", err, res)
	}
}
