package work

import (
	"fmt"
	"slices"
	"testing"

	"osqueue/api/core"
)

// A claim of many types has each of them once, in the order of the request.
func TestClaimOfManyTypes(t *testing.T) {
	for _, n := range []int{1, fewTypes, fewTypes + 1, 250} {
		var types, want []string
		for i := range n {
			name := fmt.Sprint("t", i)
			want = append(want, name)
			types = append(types, name, "", name, "t0")
		}
		var w claimRequest
		if err := (&work{&core.Core{Config: core.Config{Limits: core.DefaultLimits()}}}).readTypes(types, &w); err != nil || !slices.Equal(w.op.Types, want) || w.nothing {
			t.Errorf("%d types, %v: %q", n, err, w.op.Types)
		}
	}
}

// The time per type does not depend on their number.
func BenchmarkReadTypes(b *testing.B) {
	for _, n := range []int{4, 16, 100, 1000} {
		types := make([]string, n)
		for i := range types {
			types[i] = fmt.Sprintf("type-%04d", i)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				var w claimRequest
				if err := (&work{&core.Core{Config: core.Config{Limits: core.DefaultLimits()}}}).readTypes(types, &w); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/type")
		})
	}
}
