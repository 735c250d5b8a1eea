package load

import (
	"bytes"
	"compress/flate"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// The frequencies must follow the law within what chance allows: a chi-square test over the ranks.
func TestZipfFollowsItsLaw(t *testing.T) {
	for _, tt := range []struct {
		n     int
		theta float64
	}{{1, 0.99}, {2, 0.99}, {1000, 0.99}, {1000, 0}, {500, 1.5}} {
		t.Run(fmt.Sprintf("%d ranks at %v", tt.n, tt.theta), func(t *testing.T) {
			z, err := NewZipf(tt.n, tt.theta)
			if err != nil {
				t.Fatal(err)
			}
			const draws = 400_000
			rng := rand.New(rand.NewPCG(1, 2))
			count := make([]float64, tt.n)
			for range draws {
				count[z.Rank(rng)]++
			}
			sum := 0.0
			for i := range tt.n {
				sum += math.Pow(float64(i+1), -tt.theta)
			}
			chi := 0.0
			for i, c := range count {
				want := draws * math.Pow(float64(i+1), -tt.theta) / sum
				chi += (c - want) * (c - want) / want
			}
			// Five standard deviations above the mean of the chi-square distribution.
			if df := float64(tt.n - 1); chi > df+5*math.Sqrt(2*df)+1e-9 {
				t.Errorf("chi-square %.0f with %.0f degrees of freedom", chi, df)
			}
		})
	}
}

func TestZipfRefuses(t *testing.T) {
	for _, tt := range []struct {
		n     int
		theta float64
	}{{0, 1}, {-1, 1}, {1<<26 + 1, 1}, {10, -0.1}, {10, math.NaN()}, {10, 5}} {
		if _, err := NewZipf(tt.n, tt.theta); err == nil {
			t.Errorf("NewZipf(%d, %v) accepted", tt.n, tt.theta)
		}
	}
}

func TestKeys(t *testing.T) {
	a, err := NewKeys(1000, 600, 0.99, 5)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := NewKeys(1000, 600, 0.99, 5)
	c, _ := NewKeys(1000, 600, 0.99, 6)
	differ := false
	seen := map[int]int{}
	for range 20_000 {
		k := a.Next()
		if k < 600 || k >= 1000 {
			t.Fatalf("key %d is cold or does not exist", k)
		}
		if k != b.Next() {
			t.Fatal("the same arguments draw different keys")
		}
		differ = differ || k != c.Next()
		seen[k]++
	}
	if !differ {
		t.Error("another seed draws the same keys")
	}
	if len(seen) < 390 {
		t.Errorf("%d of 400 warm keys were read", len(seen))
	}
	// Popular keys are scattered: the first tenth of the warm keys gets about a tenth of the popular ones.
	popular, inFirst := 0, 0
	for k, n := range seen {
		if n > 50 {
			popular++
			if k < 640 {
				inFirst++
			}
		}
	}
	if popular < 20 || inFirst > popular/2 {
		t.Errorf("%d of %d popular keys lie in the first tenth", inFirst, popular)
	}
	for _, cold := range []int{-1, 1000, 1001} {
		if _, err := NewKeys(1000, cold, 0.99, 1); err == nil {
			t.Errorf("%d cold keys of 1000 accepted", cold)
		}
	}
}

// Values must compress like text: neither like zeros, which would flatter every figure, nor like noise.
func TestTextCompressesLikeText(t *testing.T) {
	text := NewText(3)
	page := text.Append(nil, 4096)
	var out bytes.Buffer
	w, _ := flate.NewWriter(&out, flate.BestSpeed)
	w.Write(page)
	w.Close()
	if r := float64(len(page)) / float64(out.Len()); r < 2.5 || r > 6 {
		t.Errorf("one page compresses %.1f:1, want 2.5 to 6", r)
	}
	if again := NewText(3).Append(nil, 4096); !bytes.Equal(page, again) {
		t.Error("the same seed gives another text")
	}
	if other := NewText(4).Append(nil, 4096); bytes.Equal(page, other) {
		t.Error("another seed gives the same text")
	}
	if next := text.Append([]byte("x"), 10); len(next) != 11 || next[0] != 'x' {
		t.Errorf("Append made %q", next)
	}
}

func TestAppendKey(t *testing.T) {
	for i, want := range map[int]string{0: "event:000000000", 42: "event:000000042", 1234567890: "event:1234567890"} {
		if got := string(AppendKey(nil, i)); got != want {
			t.Errorf("key %d is %q, want %q", i, got, want)
		}
	}
}
