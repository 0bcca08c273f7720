package serve

import (
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

// A standby whose reads of the bucket are few may never take over.
func TestFewReadsOfTheBucketWarn(t *testing.T) {
	for n, want := range map[int]bool{0: false, 1: true, 10: true, 11: false} {
		o := &serveOptions{}
		o.node.Flush.Heartbeat, o.node.BrokerTimeout = time.Second, time.Minute
		o.budget.ReadsPerMinute = n
		if got := strings.Contains(strings.Join(o.warnings(), "\n"), "--bucket-reads-per-minute "); got != want {
			t.Errorf("%d reads a minute: %q", n, o.warnings())
		}
	}
}

func TestServeRefusesWhatCannotWork(t *testing.T) {
	for line, want := range map[string]string{
		"":                                                                           "--bucket is missing",
		"--bucket ftp://x":                                                           `unknown scheme "ftp"`,
		"--bucket mem:// --max-connections 0":                                        "must be positive",
		"--bucket mem:// extra":                                                      `too many arguments: extra`,
		"--bucket mem:// --body-limit 0":                                             "between 1 and 8388608",
		"--bucket mem:// --http-addr :8080":                                          "--http-advertise",
		"--bucket mem:// --raft-addr :7080":                                          "--raft-advertise",
		"--bucket mem:// --peers n1":                                                 "name=host:port",
		"--bucket mem:// --lease 0":                                                  "must be positive",
		"--bucket mem:// --max-attempts 0":                                           "must be positive",
		"--bucket mem:// --flush-interval 0":                                         "must be positive",
		"--bucket mem:// --flush-interval -1ns":                                      "must not be negative",
		"--bucket mem:// --flush-interval 5s":                                        "must not be longer than --broker-heartbeat, 3s",
		"--bucket mem:// --flush-interval x":                                         "is not a duration",
		"--bucket mem:// --inbox-interval -1s":                                       "must not be negative",
		"--bucket s3://b --inbox-interval 10s --inbox-idle-interval 9s":              "--inbox-idle-interval 9s: must not be shorter than --inbox-interval, 10s",
		"--bucket mem:// --max-flush-lag -1s":                                        `"--max-flush-lag" flag: "-1s": must not be negative`,
		"--bucket mem:// --http-addr 127.0.0.1:0 --max-flush-lag 2s":                 "must be longer than --broker-timeout 10s",
		"--bucket mem:// --broker-heartbeat 0":                                       "--broker-heartbeat 0s: must be positive",
		"--bucket mem:// --bucket-reads-per-minute -1":                               "must be at least 0",
		"--bucket mem:// --bucket-write-timeout 0s":                                  "must be positive",
		"--bucket mem:// --http-addr 127.0.0.1:0 --disk-stall-limit 10ms":            "at least 1s",
		"--bucket mem:// --log-level loud":                                           "use trace, debug",
		"--bucket mem:// --cors-origins dash.test":                                   "is not an origin",
		"--bucket mem:// --ws-message-limit 0":                                       "between 1 and 8388608",
		"--bucket mem:// --pprof-addr 6060":                                          "write host:port",
		"--bucket mem:// --pprof-addr :6060":                                         "must be on loopback",
		"--bucket mem:// --pprof-addr 10.0.0.1:6060":                                 "must be on loopback",
		"--bucket mem:// --http-addr 127.0.0.1:0 --raft-addr 10.0.0.1:7080 --data x": "osqueue init",
		"--bucket mem:// --http-addr 127.0.0.1:0 --peers n2=10.0.0.2:8080":           "do not name this node",
	} {
		got := clitest.NewCommand(t, Commands).Run(append([]string{"serve"}, strings.Fields(line)...)...)
		if got.Code != view.ExitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("serve %s: %+v", line, got)
		}
	}
}

func TestProfilesHaveTheirOwnListener(t *testing.T) {
	l, err := listenPprof("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{log: hclog.NewNullLogger(), pprof: l}
	stop := s.servePprof()
	resp, err := http.Get("http://" + l.Addr().String() + "/debug/pprof/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), os.Args[0]) {
		t.Errorf("%s %q %v", resp.Status, body, err)
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("it serves after its end")
	}
	if none, err := listenPprof(""); none != nil || err != nil {
		t.Errorf("%v %v", none, err)
	}
}
