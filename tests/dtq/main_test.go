// Package dtq_test runs workers of the legacy contract dtq against clusters of real processes.
package dtq_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
