package view

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/go-hclog"
)

// IgnoreHangup lets the process go on at SIGHUP, with a line in the log: logrotate and systemctl reload
// send it, and a terminal that ends. The programs that the process starts do not inherit that. The caller
// calls stop.
func IgnoreHangup(log hclog.Logger) (stop func()) {
	hangups, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer close(done)
		for range hangups {
			log.Info("SIGHUP is ignored: there is nothing to load again; SIGTERM stops this process")
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
		<-done
	}
}
