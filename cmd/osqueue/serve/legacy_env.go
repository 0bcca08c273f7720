package serve

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// The environment of the legacy broker. Its names have no common prefix, so every
// setting of this program takes precedence.
const (
	envHost        = "BROKER_HOST"
	envPort        = "BROKER_PORT"
	envBackend     = "STORAGE_BACKEND"
	envS3Bucket    = "S3_BUCKET"
	envS3Region    = "S3_REGION"
	envS3Prefix    = "S3_PREFIX"
	envGCSBucket   = "GCS_BUCKET"
	envGCSPrefix   = "GCS_PREFIX"
	envGroupCommit = "GROUP_COMMIT_INTERVAL_MS"
	envHeartbeat   = "BROKER_HEARTBEAT_INTERVAL_MS"
	envTimeout     = "BROKER_HEARTBEAT_TIMEOUT_MS"
	envMaxReads    = "S3_MAX_READS_PER_MINUTE"
	envMaxWrites   = "S3_MAX_WRITES_PER_MINUTE"
	envDayWrites   = "S3_MAX_WRITES_PER_DAY"
)

// The values of STORAGE_BACKEND.
const (
	backendMemory = "memory"
	backendS3     = "s3"
	backendGCS    = "gcs"
)

// originalEnv converts the legacy environment to flags.
type originalEnv struct {
	flags   *pflag.FlagSet
	getenv  func(string) string
	notices []string // for the log
	errs    []error
}

// originalFromEnv sets flags from the legacy environment if they are set neither on the
// command line nor by OSQUEUE_ names. The notices list the variables that it ignored.
func originalFromEnv(f *pflag.FlagSet, getenv func(string) string) (notices []string, err error) {
	e := &originalEnv{flags: f, getenv: getenv}
	e.take()
	return e.notices, errors.Join(e.errs...)
}

func (e *originalEnv) take() {
	// Read this first: flags that are set from here count as changed afterwards.
	alone := !e.flags.Changed("peers")
	acked, paced := e.flags.Changed("ack"), e.flags.Changed("flush-interval")
	e.address()
	backend := e.bucket()
	e.millis(envGroupCommit, "flush-interval")
	e.millis(envHeartbeat, "broker-heartbeat")
	e.millis(envTimeout, "broker-timeout")
	if backend != "" {
		e.heartbeat()
	}
	e.count(envMaxReads, "bucket-reads-per-minute")
	e.count(envMaxWrites, "bucket-writes-per-minute")
	e.count(envDayWrites, "bucket-writes-per-day")
	if backend == "" || !alone {
		return
	}
	if !acked { // like the legacy broker, which keeps nothing on disk; this node may have no durable disk either
		e.set(envBackend, "ack", v1.AckObject)
	}
	if backend == backendS3 && !paced && e.getenv(envGroupCommit) == "" {
		e.set(envBackend, "flush-interval", originalGroupCommit.String())
	}
}

// heartbeat sets the times of the legacy broker, which does not know those of the document, also
// for a bucket that charges for requests.
func (e *originalEnv) heartbeat() {
	if !e.flags.Changed("broker-timeout") {
		e.set(envBackend, "broker-timeout", originalTimeout.String())
	}
	timeout, err := time.ParseDuration(e.flags.Lookup("broker-timeout").Value.String())
	if err == nil && timeout >= 3*originalHeartbeat && !e.flags.Changed("broker-heartbeat") {
		e.set(envBackend, "broker-heartbeat", originalHeartbeat.String())
	}
}

// The times of the legacy broker.
const (
	originalHeartbeat = 3 * time.Second
	originalTimeout   = 10 * time.Second
)

// originalGroupCommit is the legacy default. GCS takes fewer writes of an object.
const originalGroupCommit = 50 * time.Millisecond

// set sets a flag from a variable, unless the flag is given.
func (e *originalEnv) set(name, flag, value string) (taken bool) {
	f := e.flags.Lookup(flag)
	if f.Changed {
		if f.Value.String() != value {
			e.notices = append(e.notices, fmt.Sprintf("%s is not used: --%s (or %s) says %s", name, flag, view.EnvOf(flag), f.Value))
		}
		return false
	}
	if err := e.flags.Set(flag, value); err != nil {
		e.wrong("environment variable %s: %w", name, err)
	}
	view.SetSource(f, name)
	return true
}

func (e *originalEnv) wrong(format string, args ...any) {
	e.errs = append(e.errs, &view.UsageError{Err: fmt.Errorf(format, args...)})
}

// address reads BROKER_HOST and BROKER_PORT. They are the address of the listener for legacy
// clients, whom the API would refuse. On loopback without certificates it refuses no client, and
// takes the address itself.
func (e *originalEnv) address() {
	host, port := e.getenv(envHost), e.getenv(envPort)
	if host == "" && port == "" {
		return
	}
	name := envHost
	if host == "" {
		name = envPort
	}
	defaultHost, defaultPort, _ := net.SplitHostPort(e.flags.Lookup("http-addr").DefValue) // it is one
	if host == "" {
		host = defaultHost
	}
	if port == "" {
		port = defaultPort
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		e.wrong("environment variable %s=%q: write a port from 1 to 65535", envPort, port)
		return
	}
	address := net.JoinHostPort(strings.Trim(host, "[]"), port)
	if onLoopback(address) && !e.flags.Changed("tls-cert") && !e.flags.Changed("legacy-http-addr") {
		e.set(name, "http-addr", address)
		return
	}
	e.listener(name, address)
}

// listener sets the address of the listener for legacy clients.
func (e *originalEnv) listener(name, address string) {
	api := e.flags.Lookup("http-addr")
	if api.Changed && sameListener(api.Value.String(), address) {
		e.set(name, "http-addr", address) // only notes a difference
		return
	}
	if !e.set(name, "legacy-http-addr", address) {
		return
	}
	if !e.flags.Changed("legacy-allow") && !onLoopback(address) {
		e.set(name, "legacy-allow", allowPrivate)
	}
	if sameListener(api.Value.String(), address) {
		e.set(name, "http-addr", nextPort(api.Value.String()))
	}
	allow := e.flags.Lookup("legacy-allow").Value.String()
	if allow == "" {
		allow = allowLoopback
	}
	e.notices = append(e.notices, fmt.Sprintf("legacy clients are served at %s (%s) without TLS and tokens, from these networks only: %s (--legacy-allow); the API is at %s (--http-addr)",
		address, name, allow, api.Value))
}

// sameListener reports whether two addresses cannot both be listened on: they have one port, and
// one host or one that stands for all.
func sameListener(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	return errors.Join(errA, errB) == nil && portA == portB && (hostA == hostB || isAll(hostA) || isAll(hostB))
}

// isAll reports whether a host stands for all addresses of the machine.
func isAll(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// nextPort returns the address with the next port.
func nextPort(address string) string {
	host, port, _ := net.SplitHostPort(address) // the caller has split it
	n, _ := strconv.Atoi(port)
	return net.JoinHostPort(host, strconv.Itoa(n+1))
}

// bucket reads STORAGE_BACKEND and its settings. It returns the backend if it is used.
func (e *originalEnv) bucket() (backend string) {
	backend = e.backend()
	var target string
	switch backend {
	case "":
		return ""
	case backendMemory:
		target = "mem://"
		e.unused(backend, envS3Bucket)
		e.unused(backend, envGCSBucket)
	case backendS3:
		target = e.bucketURL("s3", envS3Bucket, envS3Prefix)
		if region := e.getenv(envS3Region); region != "" && target != "" {
			target += "?region=" + url.QueryEscape(region)
		}
		e.unused(backend, envGCSBucket)
	case backendGCS:
		target = e.bucketURL("gs", envGCSBucket, envGCSPrefix)
		e.unused(backend, envS3Bucket)
	default:
		e.wrong("environment variable %s=%q: write %s, %s or %s", envBackend, backend, backendMemory, backendS3, backendGCS)
		return ""
	}
	name := envBackend
	if e.getenv(name) == "" {
		name = map[string]string{backendS3: envS3Bucket, backendGCS: envGCSBucket}[backend]
	}
	if target == "" || !e.set(name, "bucket", target) {
		return ""
	}
	return backend
}

// backend returns the value of STORAGE_BACKEND, or the backend whose bucket is named.
func (e *originalEnv) backend() string {
	said := strings.ToLower(strings.TrimSpace(e.getenv(envBackend)))
	s3, gcs := e.getenv(envS3Bucket) != "", e.getenv(envGCSBucket) != ""
	switch {
	case e.flags.Changed("bucket") && said == "":
		return "" // other programs may use the same names of variables
	case said != "":
		return said
	case s3 && gcs:
		e.wrong("environment variables %s and %s cannot be combined: choose one with %s=%s or %s",
			envS3Bucket, envGCSBucket, envBackend, backendS3, backendGCS)
		return ""
	case s3:
		return backendS3
	case gcs:
		return backendGCS
	}
	return ""
}

func (e *originalEnv) bucketURL(scheme, bucketName, prefixName string) string {
	bucket := e.getenv(bucketName)
	if bucket == "" {
		if !e.flags.Changed("bucket") {
			e.wrong("environment variable %s=%s needs %s", envBackend, e.getenv(envBackend), bucketName)
		}
		return ""
	}
	u := url.URL{Scheme: scheme, Host: bucket, Path: "/" + strings.Trim(e.getenv(prefixName), "/")}
	return strings.TrimSuffix(u.String(), "/")
}

func (e *originalEnv) unused(backend, name string) {
	if e.getenv(name) != "" {
		e.notices = append(e.notices, fmt.Sprintf("%s is not used: %s says %s", name, envBackend, backend))
	}
}

// millis reads a duration in ms. 0 becomes the shortest duration.
func (e *originalEnv) millis(name, flag string) {
	if n, ok := e.number(name); ok {
		e.set(name, flag, (time.Duration(max(n, 1)) * time.Millisecond).String())
	}
}

func (e *originalEnv) count(name, flag string) {
	if n, ok := e.number(name); ok {
		e.set(name, flag, strconv.Itoa(n))
	}
}

// number reads a whole number that is not negative, if the variable is set.
func (e *originalEnv) number(name string) (int, bool) {
	value := strings.TrimSpace(e.getenv(name))
	if value == "" {
		return 0, false
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 {
		e.wrong("environment variable %s=%q: write a whole number", name, value)
		return 0, false
	}
	return int(n), true
}
