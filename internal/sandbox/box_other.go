//go:build !linux

package sandbox

import (
	"context"
	"errors"
)

// RunHelper does nothing: only Linux has levels that need helpers.
func RunHelper() {}

type platform struct{}

func (b *Box) setUp() error { return errors.New("it needs Linux") }

func (b *Box) leaveGroups(error) bool { return false }

func (b *Box) open(context.Context) (cell, error) { return &group{}, nil }

func (b *Box) advice() string { return "" }

// Close waits for the running commands.
func (b *Box) Close() error {
	b.under.Wait()
	return nil
}
