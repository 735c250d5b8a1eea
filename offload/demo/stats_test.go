package demo

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

// lines calls f with every line of a data file, cut at the last colon.
func lines(t *testing.T, file string, f func(t *testing.T, in, want string)) {
	t.Helper()
	r, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sc := bufio.NewScanner(r)
	for n := 1; sc.Scan(); n++ {
		line := sc.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		i := strings.LastIndex(line, ":")
		if i < 0 {
			t.Fatalf("%s:%d: no colon", file, n)
		}
		t.Run(strconv.Itoa(n), func(t *testing.T) { f(t, strings.TrimSpace(line[:i]), strings.TrimSpace(line[i+1:])) })
	}
}

func floats(t *testing.T, s string) (xs []float64) {
	t.Helper()
	for f := range strings.FieldsSeq(s) {
		x, err := strconv.ParseFloat(f, 64)
		if err != nil {
			t.Fatal(err)
		}
		xs = append(xs, x)
	}
	return xs
}

func TestSummarize(t *testing.T) {
	lines(t, "testdata/stats/summary.txt", func(t *testing.T, in, want string) {
		xs := floats(t, in)
		before := fmt.Sprint(xs)
		s := summarize(xs)
		if got := fmt.Sprint(s.N, s.Median, s.Q1, s.Q3); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if fmt.Sprint(xs) != before {
			t.Error("the values were moved")
		}
	})
}

func TestRatios(t *testing.T) {
	lines(t, "testdata/stats/ratios.txt", func(t *testing.T, in, want string) {
		over, under, ok := strings.Cut(in, "|")
		if !ok {
			t.Fatal("no |")
		}
		got := strings.Trim(fmt.Sprint(ratios(floats(t, over), floats(t, under))), "[]")
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestUnknownNumbersAreNull(t *testing.T) {
	b, err := json.Marshal([]number{1.5, number(math.NaN()), number(math.Inf(1))})
	if err != nil || string(b) != "[1.5,null,null]" {
		t.Errorf("got %s, %v", b, err)
	}
}
