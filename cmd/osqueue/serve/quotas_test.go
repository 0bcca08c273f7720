package serve

import (
	"testing"

	"github.com/spf13/pflag"
)

func TestQuotasFollowTheMemory(t *testing.T) {
	for _, c := range []struct {
		args                []string
		memory, jobs, bytes int64
	}{
		{nil, 4 << 30, 1 << 20, 1 << 30},
		{nil, 0, 1 << 20, 1 << 30},
		{nil, 64 << 20, 64 << 10, 64 << 20},
		{[]string{"--max-jobs", "auto", "--max-bytes=auto"}, 16 << 30, 4 << 20, 4 << 30},
		{[]string{"--max-jobs", "0", "--max-bytes=0"}, 16 << 30, 0, 0},
		{[]string{"--max-jobs", "7", "--max-bytes=5MiB"}, 16 << 30, 7, 5 << 20},
	} {
		o := newOptions()
		f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		o.bind(f)
		if err := f.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		if jobs, bytes := o.quotas.of(c.memory); jobs != c.jobs || bytes != c.bytes {
			t.Errorf("%v of %d: %d jobs and %d bytes, want %d and %d", c.args, c.memory, jobs, bytes, c.jobs, c.bytes)
		}
	}
	o := newOptions()
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.bind(f)
	for _, bad := range []string{"--max-jobs=-1", "--max-jobs=many", "--max-bytes=-2", "--max-bytes=lots"} {
		if f.Parse([]string{bad}) == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
