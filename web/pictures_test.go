package web

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// The dashboard's pictures in the documentation come from this test:
//
//	go test ./web -run TestPictures -pictures ../docs/pictures
//	go test ./web -run TestPictures -pictures ../docs/pictures -pictures.url http://127.0.0.1:9720/
//
// The first shows made-up numbers of the demo's shape, the second a daemon that runs. -pictures.all adds every
// width and state, for looking at while working on the page.
var (
	pictures     = flag.String("pictures", "", "folder to put pictures of the dashboard into")
	picturesURL  = flag.String("pictures.url", "", "take them from this dashboard instead of made-up numbers")
	picturesOnly = flag.String("pictures.only", "", "of all, only these widths: w400,w1600")
	picturesAll  = flag.Bool("pictures.all", false, "all widths and states")
)

func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("no -pictures DIR given")
	}
	browser := startBrowser(t)
	shoot := func(p *tab, name string) {
		t.Helper()
		p.wait(`document.querySelectorAll(".chart canvas").length === 2 && document.querySelectorAll("#rows tr").length > 0`)
		png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(*pictures, name+".png"), png, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d KiB", name, len(png)>>10)
	}
	for _, scheme := range []string{"light", "dark"} {
		p := newTab(t, browser, 1600, scheme)
		p.size(1600, 1280)
		if *picturesURL != "" {
			p.do(chromedp.Navigate(*picturesURL))
			p.wait(`document.body.dataset.state === "live" && document.querySelectorAll("#rows tr").length > 0`)
		} else {
			p.open(demo())
		}
		shoot(p, "dashboard-"+scheme)
		if *picturesURL == "" {
			p.size(640, 1560) // the drawer and a strip of the page behind it
			p.openRow("redis-a")
			p.do(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur()`))
			shoot(p, "cgroup-"+scheme)
		}
	}
	if !*picturesAll {
		return
	}
	for _, scheme := range []string{"light", "dark"} {
		full := func(p *tab, name string) {
			t.Helper()
			p.size(eval[int64](p, "innerWidth"), min(eval[int64](p, "document.documentElement.scrollHeight"), 4200))
			shoot(p, name+"-"+scheme)
		}
		for name, w := range map[string]int64{"w400": 400, "w800": 800, "w1200": 1200, "w1600": 1600} {
			if *picturesOnly != "" && !strings.Contains(*picturesOnly, name) {
				continue
			}
			p := newTab(t, browser, w, scheme)
			p.open(demo())
			full(p, name)
			p.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll("#rows .open")].find(b => /redis-a$/.test(b.title)).click()`))
			p.wait(`document.querySelector("#drawer .log")`)
			shoot(p, name+"-drawer-"+scheme)
			p = newTab(t, browser, w, scheme)
			p.open(crowd(2000))
			full(p, name+"-crowd")
		}
		if *picturesOnly != "" && !strings.Contains(*picturesOnly, "states") {
			continue
		}
		p := newTab(t, browser, 1200, scheme)
		p.open(empty())
		full(p, "empty")
		p = newTab(t, browser, 1200, scheme)
		p.open(stale())
		full(p, "stale")
		p = newTab(t, browser, 1200, scheme)
		p.open(hostileNames())
		full(p, "hostile")
		p = newTab(t, browser, 1200, scheme)
		p.allow = "ERR_CONNECTION"
		p.open(demo()).Close()
		p.wait(`document.body.dataset.state === "disconnected"`)
		full(p, "gone")
	}
}
