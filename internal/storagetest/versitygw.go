package storagetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// VersityGWEnv names the environment variable that may hold the path of the
// VersityGW binary. Without it the tests look into bin/ of the repository,
// and into $PATH.
const VersityGWEnv = "OSQUEUE_VERSITYGW"

const versityStart = 20 * time.Second

// VersityGW starts a real S3 server over a temporary directory, with one bucket
// named "bucket", and stops it with the test. The test is skipped when there
// is no binary. S3Credentials are in the environment then, where the SDK finds
// them. It returns the server's address.
func VersityGW(t *testing.T) (endpoint string) {
	t.Helper()
	binary := findVersityGW()
	if binary == "" {
		t.Skipf("no versitygw: run `make tools`, or set %s to the binary, to test against a real S3 server", VersityGWEnv)
	}
	S3Credentials(t)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bucket"), 0o700); err != nil {
		t.Fatal(err)
	}
	addr := freeAddress(t)
	output := &strings.Builder{}
	cmd := exec.Command(binary, "--port", addr, "--health", "/health", "--quiet", "posix", dir)
	cmd.Env = append(os.Environ(),
		"ROOT_ACCESS_KEY="+os.Getenv("AWS_ACCESS_KEY_ID"), "ROOT_SECRET_KEY="+os.Getenv("AWS_SECRET_ACCESS_KEY"))
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		cmd.Wait()
		close(exited)
	}()
	stop := func() {
		cmd.Process.Kill()
		<-exited
	}
	t.Cleanup(stop)
	endpoint = "http://" + addr
	if err := waitHealthy(t.Context(), endpoint+"/health", exited); err != nil {
		stop()
		t.Fatalf("versitygw does not start: %v\n%s", err, output)
	}
	return endpoint
}

// s3Environment has credentials for a test server, and keeps the machine's own
// configuration out of the test.
var s3Environment = map[string]string{
	"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testsecret", "AWS_SESSION_TOKEN": "",
	"AWS_REGION": "us-east-1", "AWS_PROFILE": "", "AWS_EC2_METADATA_DISABLED": "true",
	"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_ENDPOINT_URL": "", "AWS_CA_BUNDLE": "",
}

// S3Credentials puts credentials for a test server into the environment for the
// time of the test, which cannot be parallel unless SetS3Credentials has put
// them there before.
func S3Credentials(t *testing.T) {
	t.Helper()
	for name, value := range s3Environment {
		if now, ok := os.LookupEnv(name); !ok || now != value {
			t.Setenv(name, value)
		}
	}
}

// SetS3Credentials does the same for the whole process; call it in TestMain.
func SetS3Credentials() {
	for name, value := range s3Environment {
		if err := os.Setenv(name, value); err != nil {
			panic(err) // none of the names and values is one that a system refuses
		}
	}
}

func findVersityGW() string {
	if path := os.Getenv(VersityGWEnv); path != "" {
		return path
	}
	for dir, err := os.Getwd(); err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
			continue
		}
		path := filepath.Join(dir, "bin", "versitygw") // the tests are a module in the repository, without a bin
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	path, _ := exec.LookPath("versitygw")
	return path
}

// freeAddress returns a loopback address that was free a moment ago; the server
// takes a fixed one only.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func waitHealthy(ctx context.Context, url string, exited <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, versityStart)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if healthy(ctx, url) {
			return nil
		}
		select {
		case <-exited:
			return errors.New("it has exited")
		case <-ctx.Done():
			return fmt.Errorf("no answer from %s: %w", url, ctx.Err())
		case <-tick.C:
		}
	}
}

func healthy(ctx context.Context, url string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
