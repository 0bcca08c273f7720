package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// onInterrupt makes SIGINT and SIGTERM run undo and end the program, until forget is called,
// because brokers must not outlive the benchmark.
func onInterrupt(undo func()) (forget func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	over := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			undo()
			fmt.Fprintln(os.Stderr, "bench:", s)
			os.Exit(1)
		case <-over:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(over)
	}
}
