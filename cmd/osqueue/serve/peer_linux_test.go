package serve

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"

	"osqueue/internal/web"
)

// stranger is a user id that owns no node.
const stranger = 65534

func TestAdminSocketIsForItsUserAndRoot(t *testing.T) {
	for _, c := range []struct {
		uid, own int
		allowed  bool
	}{{0, 0, true}, {1000, 1000, true}, {0, 1000, true}, {1001, 1000, false}, {1000, 0, false}} {
		if err := checkUser(c.uid, c.own); (err == nil) != c.allowed {
			t.Errorf("user %d at the socket of %d: %v", c.uid, c.own, err)
		}
	}
}

// The socket refuses another user, even if the mode of its file is open to all.
func TestAdminSocketRefusesOtherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can connect as another user")
	}
	dir, err := os.MkdirTemp("", "sock") //nolint:usetesting // the path of a socket has about 100 bytes at most
	check(t, err)
	defer os.RemoveAll(dir)
	stop := serveAdmin(hclog.NewNullLogger(), web.Network{}, dir, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer stop()
	path := filepath.Join(dir, socketName)
	if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the socket: %v %v", info, err)
	}
	for _, name := range []string{dir, path} {
		check(t, os.Chmod(name, 0o777))
	}
	for uid, want := range map[int]int{0: http.StatusOK, stranger: http.StatusForbidden} {
		conn := connectAs(t, path, uid)
		if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		check(t, err)
		_ = resp.Body.Close()
		_ = conn.Close()
		if resp.StatusCode != want {
			t.Errorf("user %d is answered %s", uid, resp.Status)
		}
	}
}

// connectAs connects to a socket from a thread that has another effective user.
func connectAs(t *testing.T, path string, uid int) net.Conn {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	check(t, err)
	keep := ^uintptr(0)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, keep, uintptr(uid), keep); errno != 0 {
		t.Fatal(errno)
	}
	err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: path})
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, keep, 0, keep); errno != 0 {
		t.Fatal(errno)
	}
	check(t, err)
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	conn, err := net.FileConn(f)
	check(t, err)
	return conn
}
