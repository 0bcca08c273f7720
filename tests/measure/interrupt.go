package measure

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// OnInterrupt makes SIGINT and SIGTERM run undo and end the program, until forget is called:
// servers must not outlive the program that started them.
func OnInterrupt(program string, undo func()) (forget func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	over := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			undo()
			fmt.Fprintln(os.Stderr, program+":", s)
			os.Exit(1)
		case <-over:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(over)
	}
}
