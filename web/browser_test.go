package web

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// startBrowser starts one Chromium for a test and its subtests; it ends with the test.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	needChromium(t)
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("no-first-run", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.UserDataDir(t.TempDir()),
	)
	if os.Getuid() == 0 {
		opts = append(opts, chromedp.NoSandbox) // Chromium refuses to sandbox itself as root
	}
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("end chromium: %v", err)
		}
		cancel()
		stop()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	return ctx
}

// tab is one page of the browser with everything the page complained about.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
	allow    string // a problem that contains this is expected
}

// newTab opens an empty page of that width in that colour scheme. When the test ends, the page must not have
// complained: no console error, no exception, no violation of the content policy.
func newTab(t *testing.T, browser context.Context, width int64, scheme string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("open tab: %v", err)
	}
	ctx, stop := context.WithTimeout(ctx, 120*time.Second)
	p := &tab{t: t, ctx: ctx}
	err := chromedp.Listen(ctx, func(ev any) {
		switch e := ev.(type) {
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
				p.problem(fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
			}
		case *runtime.EventExceptionThrown:
			p.problem(fmt.Sprintf("exception: %+v", e.ExceptionDetails))
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
				p.problem(fmt.Sprintf("console %s: %v", e.Type, e.Args))
			}
		}
	})
	if err != nil {
		t.Fatalf("listen to tab: %v", err)
	}
	t.Cleanup(func() {
		stop()
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, s := range p.problems {
			if p.allow == "" || !strings.Contains(s, p.allow) {
				t.Errorf("page complains: %s", s)
			}
		}
	})
	p.size(width, 1000)
	p.scheme(scheme)
	return p
}

func (p *tab) problem(s string) { p.mu.Lock(); p.problems = append(p.problems, s); p.mu.Unlock() }

// scheme sets what the system prefers, "light" or "dark"; nothing moves.
func (p *tab) scheme(name string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
	if err != nil {
		p.t.Fatalf("set colour scheme: %v", err)
	}
}

// size sets the viewport in CSS pixels.
func (p *tab) size(width, height int64) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1})
	if err != nil {
		p.t.Fatalf("set viewport: %v", err)
	}
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// open loads the dashboard over src and waits until it shows data.
func (p *tab) open(src API) *httptest.Server {
	p.t.Helper()
	srv := serve(p.t, src)
	p.do(chromedp.Navigate(srv.URL + "/"))
	p.wait(`document.body.dataset.state !== "loading"`)
	return srv
}

func serve(t *testing.T, src API) *httptest.Server {
	srv := httptest.NewServer(Handler(src, Options{Version: "test"}))
	t.Cleanup(srv.Close)
	return srv
}

// wait returns when the expression is true in the page. It looks again each 10 ms in the page itself.
func (p *tab) wait(expr string) {
	p.t.Helper()
	js := fmt.Sprintf(`new Promise((ok, no) => { const end = performance.now() + 15000; (function look() {
		let v = false; try { v = !!(%s) } catch (e) {}
		if (v) ok(true); else if (performance.now() > end) ok(false); else setTimeout(look, 10) })() })`, expr)
	if !eval[bool](p, js) {
		p.t.Fatalf("never true in the page: %s\npage: %s", expr, eval[string](p,
			`document.body.dataset.state + " | " + document.getElementById("notice").innerText + " | " + document.activeElement.outerHTML.slice(0, 200) + " | " + document.getElementById("d-body").innerText.slice(0, 200)`))
	}
}

// eval returns what the expression, or the promise it is, comes to in the page.
func eval[T any](p *tab, expr string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expr, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("evaluate %s: %v", expr, err)
	}
	return v
}

// want fails when the expression is not true in the page now.
func (p *tab) want(expr, why string) {
	p.t.Helper()
	if !eval[bool](p, "!!("+expr+")") {
		p.t.Errorf("%s: not true in the page: %s", why, expr)
	}
}

// press strikes one printable key as a keyboard does: when the page takes the key, no character follows.
func (p *tab) press(key string) {
	p.t.Helper()
	for _, e := range []input.DispatchKeyEventParams{
		{Type: input.DispatchKeyEventTypeKeyDown, Key: key, Text: key}, {Type: input.DispatchKeyEventTypeKeyUp, Key: key}} {
		if _, err := chromedp.Call(p.ctx, input.DispatchKeyEvent, e); err != nil {
			p.t.Fatalf("press %q: %v", key, err)
		}
	}
}

// keys types into what has the focus, or strikes a key of package kb.
func (p *tab) keys(s string) { p.t.Helper(); p.do(chromedp.KeyEvent(s)) }
