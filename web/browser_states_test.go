package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/errkind"
)

// TestBrowser runs the page in a real Chromium. Every tab also fails its test on a console error, an exception
// or a violation of the content policy.
func TestBrowser(t *testing.T) {
	browser := startBrowser(t)
	for _, c := range []struct {
		name string
		run  func(*testing.T, *tab)
	}{
		{"no sideways scroll", noSidewaysScroll},
		{"first paint with 2000 cgroups", firstPaint},
		{"keyboard", keyboard},
		{"themes", themes},
		{"sort, filter and page", sortFilterPage},
		{"empty", emptyState},
		{"stale", staleState},
		{"disconnected and back", disconnected},
		{"error", errorState},
		{"hostile names stay text", hostileState},
		{"explanation", explanation},
		{"detail of a cgroup", detailDrawer},
		{"details are read when opened", detailLazy},
		{"no source, and old readings", detailNone},
		{"older daemon", olderDaemon},
		{"node panels", nodePanels},
		{"detail while the daemon is gone", detailGone},
		{"accessible", accessible},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, newTab(t, browser, 1280, "light")) })
	}
}

func noSidewaysScroll(t *testing.T, p *tab) {
	for name, src := range map[string]API{"demo": demo(), "crowd": crowd(2000), "hostile": hostileNames(), "empty": empty(), "stopped": stopped(), "older": older()} {
		p.open(src)
		for _, w := range []int64{400, 640, 800, 1001, 1401, 1600} {
			p.size(w, 900)
			p.wait(fmt.Sprintf("innerWidth === %d", w))
			if over := eval[int](p, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
				t.Errorf("%s at %d px: page is %d px too wide; widest: %s", name, w, over, eval[string](p,
					`[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth && !e.closest(".scroll, .unseen, dialog")).slice(0, 3).map(e => e.tagName + "." + e.className + "#" + e.id).join(" ")`))
			}
		}
	}
}

func firstPaint(t *testing.T, p *tab) {
	srv := serve(t, crowd(2000))
	// What the page needs, not what else this machine does at that moment: one load of ten must keep the bound.
	const bound = 1000.0
	paint, rows, tries := 1e9, 1e9, 0
	for ; tries < 10 && (paint > bound || rows > bound); tries++ {
		p.do(chromedp.Navigate(srv.URL + "/"))
		p.wait(`performance.getEntriesByName("rows-painted").length && performance.getEntriesByName("first-contentful-paint").length`)
		paint = min(paint, eval[float64](p, `performance.getEntriesByName("first-contentful-paint")[0].startTime`))
		rows = min(rows, eval[float64](p, `performance.getEntriesByName("rows-painted")[0].startTime`))
	}
	load, _ := os.ReadFile("/proc/loadavg")
	t.Logf("first contentful paint %.0f ms, first rows of 2000 cgroups painted %.0f ms, after %d loads; load average %s", paint, rows, tries, load)
	if paint > bound || rows > bound {
		t.Errorf("first contentful paint %.0f ms, rows %.0f ms: over %.0f", paint, rows, bound)
	}
	if n := eval[int](p, `document.querySelectorAll("#rows tr").length`); n != 30 {
		t.Errorf("%d rows in the document, want one page of 30", n)
	}
	p.want(`document.getElementById("table").getAttribute("aria-rowcount") === "2001"`, "row count for a screen reader")
}

func keyboard(t *testing.T, p *tab) {
	p.open(demo())
	p.press("j")
	p.wait(`document.activeElement === document.querySelector("#rows .open")`)
	p.press("j")
	p.wait(`document.activeElement === document.querySelectorAll("#rows .open")[1]`)
	p.keys(kb.ArrowDown)
	p.wait(`document.activeElement === document.querySelectorAll("#rows .open")[2]`)
	p.press("k")
	p.want(`document.querySelectorAll('#rows .open[tabindex="0"]').length === 1`, "one tab stop in the table")
	name := eval[string](p, `document.activeElement.title`)
	p.keys(kb.Enter)
	p.wait(`document.getElementById("drawer").open && document.querySelector("#drawer .signals")`)
	if got := eval[string](p, `document.getElementById("d-title").textContent`); got != name {
		t.Errorf("Enter on %q explains %q", name, got)
	}
	p.want(`document.getElementById("drawer").contains(document.activeElement)`, "focus is in the drawer")
	p.keys(kb.Escape)
	p.wait(`!document.getElementById("drawer").open`)
	p.want(`document.activeElement.title === `+fmt.Sprintf("%q", name), "focus is back on the row")
	p.press("?")
	p.wait(`document.getElementById("keys").open`)
	p.keys(kb.Escape)
	p.wait(`!document.getElementById("keys").open`)
	p.press("/")
	p.wait(`document.activeElement.id === "filter"`)
	p.keys("redis")
	p.wait(`document.getElementById("filter").value === "redis" && document.querySelectorAll("#rows tr").length === 2`)
	p.keys(kb.Escape)
	p.wait(`document.querySelectorAll("#rows tr").length === 4`)
	p.keys(kb.Escape)
	p.wait(`document.activeElement === document.body`)
	p.press("o")
	p.wait(`document.querySelector('#show [data-show="observed"]').getAttribute("aria-pressed") === "true"`)
	p.press("p")
	p.wait(`document.getElementById("state-text").textContent === "Frozen"`)
	p.press("p")
	p.wait(`document.getElementById("state-text").textContent === "Live"`)
	// By Tab alone one comes from the top of the page to a row, and what has the focus shows it.
	p.do(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur()`))
	reached := false
	for range 30 {
		p.keys(kb.Tab)
		if out := eval[string](p, `getComputedStyle(document.activeElement).outlineStyle`); out == "none" {
			t.Errorf("no visible focus on %s", eval[string](p, `document.activeElement.outerHTML.slice(0, 120)`))
		}
		if reached = eval[bool](p, `!!document.activeElement.closest("#rows")`); reached {
			break
		}
	}
	if !reached {
		t.Error("30 times Tab does not reach the table")
	}
	p.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("chart-memory").focus()`))
	p.keys(kb.ArrowLeft)
	p.wait(`/Resident/.test(document.getElementById("announce").textContent)`)
}

func themes(t *testing.T, p *tab) {
	p.open(demo())
	ground := `getComputedStyle(document.documentElement).backgroundColor`
	light := eval[string](p, ground)
	p.press("t") // light
	p.wait(`document.documentElement.dataset.theme === "light"`)
	p.press("t") // dark
	p.wait(`document.documentElement.dataset.theme === "dark" && ` + ground + ` !== "` + light + `"`)
	dark := eval[string](p, ground)
	p.do(chromedp.Reload())
	p.wait(`document.body.dataset.state === "live"`)
	if got := eval[string](p, ground); got != dark {
		t.Errorf("the choice is not kept: ground %s, want %s", got, dark)
	}
	p.press("t") // auto
	p.wait(`document.documentElement.dataset.theme === undefined && ` + ground + ` === "` + light + `"`)
	p.scheme("dark")
	p.wait(ground + ` === "` + dark + `"`)
}

func sortFilterPage(t *testing.T, p *tab) {
	p.open(crowd(2000))
	num := func(i int) string {
		return fmt.Sprintf(`document.querySelectorAll("#rows tr")[%d].querySelector('[data-col="refaults"]').textContent`, i)
	}
	click := func(sel string) {
		p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector(` + fmt.Sprintf("%q", sel) + `).click()`))
	}
	click(`th[data-col="refaults"] button`)
	p.want(`document.querySelector('th[data-col="refaults"]').getAttribute("aria-sort") === "descending"`, "aria-sort")
	p.want(`document.querySelectorAll('th[aria-sort$="ing"]').length === 1`, "one sorted column")
	p.want(`Number(`+num(0)+`) >= Number(`+num(29)+`) && Number(`+num(0)+`) >= 39`, "most refaults first")
	click(`th[data-col="refaults"] button`)
	p.want(`parseFloat(`+num(0)+`.replace("<", "")) <= 1`, "least refaults first")
	p.want(`document.getElementById("range").textContent === "1–30 of 2,000"`, "range")
	p.press("]")
	p.wait(`document.getElementById("range").textContent === "31–60 of 2,000"`)
	p.press("/")
	p.wait(`document.activeElement.id === "filter"`)
	p.keys("throughput refault")
	p.wait(`document.querySelectorAll("#rows tr").length > 0 && [...document.querySelectorAll("#rows tr")].every(r => /throughput/.test(r.textContent) && /refault-cost/.test(r.textContent))`)
	p.keys(" nosuch")
	p.wait(`!document.getElementById("empty").hidden && /Nothing matches/.test(document.getElementById("empty").textContent)`)
}

func emptyState(t *testing.T, p *tab) {
	p.open(empty())
	p.wait(`document.querySelectorAll("#rows tr").length === 4 && !document.getElementById("hint").hidden`)
	p.want(`/--root/.test(document.getElementById("hint").innerText)`, "says what to do")
	p.press("m")
	p.wait(`/No cgroup is managed yet/.test(document.getElementById("empty").textContent) && /roots/.test(document.getElementById("empty").textContent)`)
	p.want(`document.getElementById("notice").hidden`, "nothing is wrong")
	p.press("o")
	p.wait(`document.querySelectorAll("#rows tr").length === 4`)
	p.want(`/n\/a/.test(document.querySelector("#rows").textContent)`, "pressure that is unavailable says so")
	p.want(`/would save about 71 MiB/.test(document.getElementById("advice").textContent)`, "advice")
}

func staleState(t *testing.T, p *tab) {
	f := stale()
	p.open(f)
	p.wait(`document.body.dataset.state === "stale" && !document.getElementById("notice").hidden`)
	p.want(`/more than three periods/.test(document.getElementById("notice-text").textContent)`, "says why")
	fresh := demo()
	f.set(func(f *fake) { f.history, f.made = fresh.history, fresh.made })
	p.wait(`document.body.dataset.state === "live" && document.getElementById("notice").hidden`)
}

// gate is a daemon that can be gone: it drops the connection without an answer.
type gate struct {
	http.Handler
	shut atomic.Bool
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.shut.Load() {
		panic(http.ErrAbortHandler)
	}
	g.Handler.ServeHTTP(w, r)
}

func disconnected(t *testing.T, p *tab) {
	p.allow = "ERR_" // the browser itself logs failed requests
	f := demo()
	f.status.Period = 0 // asks each second
	g := &gate{Handler: Handler(f, Options{})}
	srv := httptest.NewServer(g)
	defer srv.Close()
	p.do(chromedp.Navigate(srv.URL + "/"))
	p.wait(`document.body.dataset.state === "live"`)
	g.shut.Store(true)
	p.wait(`document.body.dataset.state === "disconnected"`)
	p.want(`document.querySelectorAll("#rows tr").length === 4`, "the last data stays")
	p.want(`getComputedStyle(document.querySelector("main")).filter.includes("grayscale")`, "and looks old")
	p.want(`/Trying again in \d+ s/.test(document.getElementById("notice-text").textContent)`, "says when it tries again")
	p.want(`/Disconnected/.test(document.getElementById("announce").textContent)`, "says so to a screen reader")
	p.wait(`/Trying again in [23] s/.test(document.getElementById("notice-text").textContent)`) // the second wait is longer
	g.shut.Store(false)
	p.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("retry").click()`))
	p.wait(`document.body.dataset.state === "live" && document.getElementById("notice").hidden`)
}

// failing answers like a daemon whose answer cannot be written.
type failing struct{ *fake }

func (f failing) Status() admin.Status {
	s := f.fake.Status()
	s.Host.MemSome = nan()
	return s
}

func errorState(t *testing.T, p *tab) {
	p.allow = "500"
	p.open(failing{demo()})
	p.wait(`document.body.dataset.state === "error"`)
	p.want(`/answers with an error/.test(document.getElementById("notice-title").textContent)`, "says so")
	p.want(`!document.getElementById("retry").hidden`, "offers to retry")
}

func hostileState(t *testing.T, p *tab) {
	p.open(hostileNames())
	p.wait(`document.querySelectorAll("#rows tr").length > 8`)
	p.want(`window.pwned === undefined`, "no name ran as code")
	p.want(`!document.querySelector("main img[src=x], main script, main svg, main b i, #rows i[onload], [onclick], [onerror]")`, "no name became markup")
	p.want(`[...document.querySelectorAll("#rows .open")].some(b => b.textContent === '/kubepods/<img src=x onerror="window.pwned=1">')`, "the name is shown as it is")
	p.want(`[...document.querySelectorAll("#rows .open")].some(b => b.textContent === "/kubepods/a\\u{a}b\\u{9}c\\u{1b}[31mred")`, "controls are written out")
	p.want(`[...document.querySelectorAll("#rows .open")].some(b => b.textContent === "/kubepods/\\u{202e}txt.exe\\u{2066}")`, "bidi marks are written out")
	// Every one can be explained, even the one that is not UTF-8.
	for i := range hostile {
		p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelectorAll("#rows .open")[%d].click()`, i)))
		p.wait(`document.querySelector("#drawer .log") && document.querySelector("#d-cold svg")`)
		p.want(`!document.querySelector("#drawer img, #drawer script, #drawer [onload], #drawer [onerror]") && /pwned/.test(document.getElementById("d-slo").textContent)`, "nothing in the drawer became markup")
		p.keys(kb.Escape)
		p.wait(`!document.getElementById("drawer").open`)
	}
	p.want(`window.pwned === undefined`, "no explanation ran as code")
}

func explanation(t *testing.T, p *tab) {
	f := demo()
	p.open(f)
	p.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll("#rows .open")].find(b => /redis-a$/.test(b.title)).click()`))
	p.wait(`document.querySelectorAll("#drawer .signals li").length === 3`)
	p.want(`/target 0.10 %/.test(document.querySelector("#drawer .signals").textContent)`, "signals stand beside their targets")
	p.want(`/Refault cost target/.test(document.getElementById("d-body").textContent)`, "the targets of its class")
	p.want(`location.hash === "#cgroup=%2Fkubepods%2Fonline%2Fredis-a"`, "the explanation has an address")
	p.do(chromedp.Reload())
	p.wait(`document.getElementById("drawer").open && document.querySelectorAll("#drawer .signals li").length === 3`)
	f.set(func(f *fake) {
		f.explain = func(string) (admin.Explanation, error) {
			return admin.Explanation{}, errkind.New(errkind.NotFound, "gone")
		}
	})
	p.allow = "404"
	p.wait(`/does not know this cgroup any more/.test(document.getElementById("d-body").textContent)`)
}

func accessible(t *testing.T, p *tab) {
	axe, err := os.ReadFile("testdata/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string) {
		t.Helper()
		p.do(chromedp.Evaluate[chromedp.Void](`if (!window.axe) {` + string(axe) + `}`))
		for _, v := range eval[[]string](p, `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations
			.filter(v => v.impact === "serious" || v.impact === "critical")
			.map(v => v.impact + " " + v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + " " + n.any.map(a => a.message).join("; ")).join(" | ")))`) {
			t.Errorf("%s: axe: %s", what, v)
		}
	}
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		p.size(1280, 900)
		p.open(hostileNames())
		p.wait(`document.querySelectorAll(".chart canvas").length === 2`)
		check(scheme)
		p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#rows .open").click()`))
		p.wait(`document.querySelector("#drawer .log") && document.querySelector("#d-cold svg") && document.querySelector("#d-size .big")`)
		check(scheme + ", explanation open")
		if scheme == "dark" {
			return // what is left differs from light by colours that were looked at
		}
		p.keys(kb.Escape)
		p.size(400, 900)
		p.wait(`innerWidth === 400`)
		check(scheme + ", 400 px")
		p.openRow("redis-a")
		check(scheme + ", 400 px, explanation open")
		p.open(stale())
		p.wait(`document.body.dataset.state === "stale"`)
		p.press("?")
		p.wait(`document.getElementById("keys").open`)
		check(scheme + ", stale, keys open")
	}
}
