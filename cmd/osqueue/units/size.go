package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// sizeUnits are the units of sizes, longest name first.
var sizeUnits = []struct {
	name  string
	bytes float64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"KB", 1e3},
	{"kB", 1e3},
	{"B", 1},
}

// ParseSize parses a number of bytes, such as 4096, 64KiB or 1.5GB.
func ParseSize(text string) (int64, error) {
	number, factor := text, 1.0
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			number, factor = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	size := n * factor
	if err != nil || math.IsNaN(size) || size < 0 || size > 1<<60 {
		return 0, fmt.Errorf("%q is not a size: write it as in 4096, 64KiB, 10MiB or 1GiB", text)
	}
	return int64(size), nil
}

// BytesText formats a size with its unit, for a sentence.
func BytesText(n int64) string {
	text := SizeText(n)
	if n < 1024 {
		text += " B"
	}
	return text
}

// SizeText formats a size with about three digits, in the notation of ParseSize.
func SizeText(n int64) string {
	for _, u := range sizeUnits[:4] {
		if v := float64(n) / u.bytes; v >= 1 {
			return strconv.FormatFloat(v, 'f', decimals(v), 64) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

func decimals(v float64) int {
	if v < 10 && v != math.Trunc(v) {
		return 1
	}
	return 0
}

// Size is a flag whose value is a number of bytes.
type Size int64

// String implements pflag.Value.
func (s *Size) String() string { return strconv.FormatInt(int64(*s), 10) }

// Set implements pflag.Value.
func (s *Size) Set(text string) error {
	n, err := ParseSize(text)
	*s = Size(n)
	return err
}

// Type implements pflag.Value.
func (*Size) Type() string { return "size" }

// UnmarshalYAML accepts sizes in the notation of flags.
func (s *Size) UnmarshalYAML(node *yaml.Node) error {
	return atLine(node, s.Set(node.Value))
}
