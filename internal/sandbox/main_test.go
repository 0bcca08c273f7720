package sandbox

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	RunHelper()
	goleak.VerifyTestMain(m)
}
