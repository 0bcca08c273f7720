package measure

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Busy is a reading of the processor time that all programs of this machine have used.
type Busy struct {
	at   time.Time
	used time.Duration // includes the time that the hypervisor took
}

// errNoBusy is the error of ReadBusy on systems without /proc/stat.
var errNoBusy = errors.New("/proc/stat has no line for all processors")

// ReadBusy reads the processor time of the whole machine.
func ReadBusy() (Busy, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Busy{}, err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return Busy{}, errNoBusy
	}
	b := Busy{at: time.Now()}
	for i, f := range fields[1:9] {
		if i == 3 || i == 4 {
			continue // idle, and idle while a disk works
		}
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return Busy{}, err
		}
		b.used += time.Duration(n) * tick
	}
	return b, nil
}

// Others returns the share of the machine's processors that other programs used between two
// readings, if the measured programs used own in that time. It is between 0 and 1.
func (b Busy) Others(later Busy, own time.Duration) float64 {
	elapsed := later.at.Sub(b.at) * time.Duration(runtime.NumCPU())
	if elapsed <= 0 {
		return 0
	}
	return min(max(float64(later.used-b.used-own)/float64(elapsed), 0), 1)
}

// quietSample is the time over which AwaitQuiet measures the activity of the machine.
const quietSample = 250 * time.Millisecond

// AwaitQuiet waits until all programs together use at most the given share of the machine's
// processors, or until limit. It returns the share of the last sample.
func AwaitQuiet(ctx context.Context, share float64, limit time.Duration) (float64, error) {
	end := time.Now().Add(limit)
	before, err := ReadBusy()
	if err != nil {
		return 0, err
	}
	for {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(quietSample):
		}
		now, err := ReadBusy()
		if err != nil {
			return 0, err
		}
		busy := before.Others(now, 0)
		if busy <= share || now.at.After(end) {
			return busy, nil
		}
		before = now
	}
}
