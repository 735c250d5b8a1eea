package bytesize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units from largest to smallest, so that the first one that fits is the one to print.
var units = [...]struct {
	name string
	size Size
}{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", B}}

// Parse reads an amount such as "512 B", "16MiB" or "1.5 GiB". The space is optional, the unit is not.
// A fraction is cut to whole bytes. Negative amounts, bare numbers, decimal units (MB, G) and amounts
// beyond the range of a Size are errors whose text says what to write instead.
func Parse(s string) (Size, error) {
	text := strings.TrimSpace(s)
	digits := len(text)
	for i := range len(text) {
		if c := text[i]; c != '.' && (c < '0' || c > '9') {
			digits = i
			break
		}
	}
	number, name := text[:digits], strings.TrimLeft(text[digits:], " ")
	switch {
	case text == "":
		return 0, fmt.Errorf("bytesize: empty amount; write a number and a unit such as 16 MiB")
	case strings.HasPrefix(text, "-"):
		return 0, fmt.Errorf("bytesize: %s is negative; amounts start at 0 B", strconv.Quote(s))
	case number == "":
		return 0, fmt.Errorf("bytesize: %s is not an amount; write a number and a unit such as 16 MiB", strconv.Quote(s))
	case name == "":
		return 0, fmt.Errorf("bytesize: %s has no unit; write %s B, %s MiB or another of %s", strconv.Quote(s), number, number, unitNames)
	}
	unit, ok := unitByName(name)
	if !ok {
		return 0, unknownUnit(s, name)
	}
	return scale(s, number, unit)
}

const unitNames = "B, KiB, MiB, GiB, TiB"

func unitByName(name string) (Size, bool) {
	for _, u := range units {
		if u.name == name {
			return u.size, true
		}
	}
	return 0, false
}

func unknownUnit(s, name string) error {
	letter := strings.ToUpper(name[:1])
	if strings.Contains("KMGT", letter) {
		return fmt.Errorf("bytesize: %s: unknown unit %s; did you mean %siB?", strconv.Quote(s), strconv.Quote(name), letter)
	}
	return fmt.Errorf("bytesize: %s: unknown unit %s; use one of %s", strconv.Quote(s), strconv.Quote(name), unitNames)
}

// maxFraction keeps unit × part below 2^63 for the largest unit.
const maxFraction = 6

// scale multiplies in integers: a float64 would lose bytes from 8 PiB on and round fractions by taste.
func scale(s, number string, unit Size) (Size, error) {
	whole, fraction, dotted := strings.Cut(number, ".")
	if whole == "" || dotted && (fraction == "" || strings.Contains(fraction, ".")) {
		return 0, fmt.Errorf("bytesize: %s: %s is not a number", strconv.Quote(s), strconv.Quote(number))
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > int64(math.MaxInt64/unit) {
		return 0, fmt.Errorf("bytesize: %s is more than %s", strconv.Quote(s), Size(math.MaxInt64))
	}
	total := Size(n) * unit
	if len(fraction) > maxFraction {
		return 0, fmt.Errorf("bytesize: %s has more than %d digits after the point; use a smaller unit", strconv.Quote(s), maxFraction)
	}
	part, divisor := Size(0), Size(1)
	for i := range len(fraction) {
		part, divisor = part*10+Size(fraction[i]-'0'), divisor*10
	}
	rest := unit * part / divisor
	if total > math.MaxInt64-rest {
		return 0, fmt.Errorf("bytesize: %s is more than %s", strconv.Quote(s), Size(math.MaxInt64))
	}
	return total + rest, nil
}

// String prints for people: the largest unit that keeps the number at or above one, with one decimal
// when the amount is no whole multiple of it ("1 GiB", "1.5 GiB", "512 B", "-3 MiB").
func (s Size) String() string {
	magnitude, sign := uint64(s), ""
	if s < 0 {
		magnitude, sign = -magnitude, "-"
	}
	for i, u := range units {
		unit := uint64(u.size)
		if magnitude < unit && unit > 1 {
			continue
		}
		if magnitude%unit == 0 {
			return sign + strconv.FormatUint(magnitude/unit, 10) + " " + u.name
		}
		text := strconv.FormatFloat(float64(magnitude)/float64(unit), 'f', 1, 64)
		if text == "1024.0" && i > 0 {
			return sign + "1.0 " + units[i-1].name
		}
		return sign + text + " " + u.name
	}
	return "0 B"
}

// Exact prints the amount so that Parse gives it back: the largest unit of which it is a whole multiple.
func (s Size) Exact() string {
	for _, u := range units {
		if s%u.size == 0 && (s != 0 || u.size == B) {
			return strconv.FormatInt(int64(s/u.size), 10) + " " + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + " B"
}

// MarshalText implements encoding.TextMarshaler with Exact, so that nothing is lost on the way back.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.Exact()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with Parse; on error the value is unchanged.
func (s *Size) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}

// Set and Type make a *Size usable as a command-line flag.
func (s *Size) Set(text string) error { return s.UnmarshalText([]byte(text)) }

// Type names the value in a flag's help.
func (s *Size) Type() string { return "size" }
