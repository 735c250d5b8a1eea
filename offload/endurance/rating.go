package endurance

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spillway-io/spillway/internal/bytesize"
)

// Rating is what a drive may be written in its life, in bytes. Its text is the data sheet's: "600 TB" or "1.2 PB",
// decimal as drives are sold; "545 TiB" is read, too.
type Rating int64

// String prints as a data sheet does.
func (r Rating) String() string {
	if r >= 1e15 {
		return strconv.FormatFloat(float64(r)/1e15, 'f', -1, 64) + " PB"
	}
	return strconv.FormatFloat(float64(r)/1e12, 'f', -1, 64) + " TB"
}

// MarshalText implements encoding.TextMarshaler: in bytes unless a decimal unit is exact, so that nothing is lost.
func (r Rating) MarshalText() ([]byte, error) {
	if r%1e12 == 0 {
		return []byte(strconv.FormatInt(int64(r)/1e12, 10) + " TB"), nil
	}
	return bytesize.Size(r).MarshalText()
}

// UnmarshalText implements encoding.TextUnmarshaler; on error the value is unchanged.
func (r *Rating) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	for unit, bytes := range map[string]float64{"TB": 1e12, "PB": 1e15} {
		number, ok := strings.CutSuffix(s, unit)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(n >= 0 && n*bytes <= float64(most)) {
			return fmt.Errorf("endurance: %s is not a rating; write 600 TB as on the drive's data sheet", strconv.Quote(s))
		}
		*r = Rating(n * bytes)
		return nil
	}
	n, err := bytesize.Parse(s)
	if err != nil {
		return fmt.Errorf("endurance: %s is not a rating; write 600 TB as on the drive's data sheet", strconv.Quote(s))
	}
	*r = Rating(n)
	return nil
}
