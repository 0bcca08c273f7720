package serve

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/cmd/osqueue/view"
)

// blockedLog is a log on a disk that hangs.
type blockedLog struct{ release chan struct{} }

func (b blockedLog) Write(p []byte) (int, error) {
	<-b.release
	return len(p), nil
}

func TestExitGuardEndsAProcessThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var took time.Duration
		code := -1
		b := blockedLog{make(chan struct{})}
		g := newExitGuard(hclog.New(&hclog.LoggerOptions{Output: b}), func(c int) { took, code = time.Since(began), c })
		g.within(10 * time.Second)
		g.within(900 * time.Millisecond) // what must stop stops, also in the middle of a graceful stop
		g.within(10 * time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		if code != view.ExitFailure || took > time.Second {
			t.Errorf("exit code %d after %v", code, took)
		}
		close(b.release)
	})
}

func TestExitGuardLetsAnOrderlyEndBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newExitGuard(hclog.NewNullLogger(), func(int) { t.Error("the process was ended") })
		g.stop()
		g.within(time.Second)
		g.stop()
		time.Sleep(time.Minute)
	})
}
