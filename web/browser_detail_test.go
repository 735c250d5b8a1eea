package web

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/errkind"
)

// openRow opens the cgroup whose path ends so, by the keyboard or by a click, and waits until its parts have answered.
func (p *tab) openRow(suffix string) {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`[...document.querySelectorAll("#rows .open")].find(b => b.title.endsWith(%q)).focus()`, suffix)))
	p.keys(kb.Enter)
	p.wait(`document.getElementById("drawer").open && document.getElementById("d-cold") && !/Reading/.test(document.getElementById("d-cold").textContent + document.getElementById("d-size").textContent)`)
}

// says fails when the text of an element does not match.
func (p *tab) says(id, re string) {
	p.t.Helper()
	p.wait(fmt.Sprintf(`/%s/.test(document.getElementById(%q).innerText.replace(/\s+/g, " "))`, re, id))
}

func detailDrawer(t *testing.T, p *tab) {
	p.open(demo())
	p.openRow("redis-a")
	p.want(`location.hash === "#cgroup=%2Fkubepods%2Fonline%2Fredis-a"`, "it has an address")
	label := `document.querySelector("#d-cold svg[role=img]").getAttribute("aria-label")`
	p.want(`/not touched for 1 min: 74 %, 214 MiB;.*60 min: not watched that long/.test(`+label+`)`, "the drawing says what it shows")
	p.want(`[...document.querySelectorAll("#d-cold svg text")].map(t => t.textContent).join() === "0 %,0,50 %,145 MiB,100 %,289 MiB,1 min,2 min,5 min,15 min,60 min,not touched for at least,watched,for less"`, "axes with units")
	p.want(`document.querySelectorAll("#d-cold svg circle").length === 4 && document.querySelectorAll("#d-cold tbody tr").length === 2`, "points, and a table of them")
	p.says("d-cold", `Source idle-bitmap · a scan every 2 min · watched for 24 min`)
	p.says("d-slo", `good redis GET probe at 127\.0\.0\.1:6379 1\.4 ms last p99 at most 2 ms`)
	p.says("d-slo", `Multiplier of refault cost 1\.41×`)
	p.says("d-slo", `118, 52 pairs compared`)
	p.says("d-slo", `p99 per MiB saved 0\.47 µs \(95 %: −0\.12 to 1\.06 µs\)`)
	p.says("d-slo", `refault cost 12\.2 µs \(95 %: 3\.1 to ∞ µs\)`)
	p.says("d-size", `≤ 332 MiB memory request requests\.memory: 332Mi .*medium 62 %.*rested for 9m.*To raise it`)
	p.says("d-memory", `Anonymous 260 MiB, 90 %.*File cache 28\.9 MiB, 10 %.*weighs 120 of 200.*Written to drives 19\.0 MiB`)
	p.want(`document.querySelectorAll("#d-log .log li").length > 10`, "recent decisions")
	p.want(`!/Incompressible/.test(document.getElementById("d-memory").innerText)`, "not incompressible")
	// Another address in the same tab shows the other cgroup.
	p.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#cgroup=" + encodeURIComponent("/kubepods/offline/batch")`))
	p.says("d-title", `batch`)
	p.says("d-class", `incompressible`)
	p.says("d-memory", `Incompressible: its pages do not shrink`)
	p.says("d-slo", `No signal: the targets of its class`)
	// The drawing follows the room, and nothing is wider than it.
	for _, w := range []int64{400, 1600} {
		p.size(w, 900)
		p.wait(fmt.Sprintf(`innerWidth === %d && document.querySelector("#d-cold svg").getBoundingClientRect().width > 300`, w))
		p.wait(`document.getElementById("d-body").scrollWidth <= document.getElementById("d-body").clientWidth`)
	}
}

func detailLazy(t *testing.T, p *tab) {
	p.open(crowd(2000))
	p.wait(`document.querySelectorAll("#rows tr").length === 30`)
	p.want(`!performance.getEntriesByType("resource").some(e => /v1\/(heat|recommend|explain)/.test(e.name))`, "nothing is read for what is not open")
	p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#rows .open").focus()`))
	p.keys(kb.Enter)
	p.wait(`["heat", "recommend", "explain"].every(x => performance.getEntriesByType("resource").some(e => e.name.includes("/v1/" + x)))`)
}

func detailNone(t *testing.T, p *tab) {
	p.allow = "50" // the browser itself logs answers like 501
	f := demo()
	p.open(f)
	p.press("o")
	p.wait(`document.querySelectorAll("#rows tr").length === 4`)
	p.openRow("containerd.service")
	p.says("d-cold", `No source: .*only observed \(outside the roots\).*add it to offload\.roots`)
	p.says("d-size", `No recommendation: .*only observed.*put it below a root`)
	p.says("d-log", `None yet`)
	p.keys(kb.Escape)
	p.wait(`!document.getElementById("drawer").open`)
	p.press("m")
	for _, c := range []struct {
		what, says string
		heat       func(string) (admin.Heat, error)
	}{
		{"not yet", `No reading yet: .*ask again in 2m0s`, func(string) (admin.Heat, error) {
			return admin.Heat{}, errkind.Hint(errkind.New(errkind.Unknown, "offload: no reading yet"), "ask again in 2m0s")
		}},
		{"old", `This reading is 25 min old`, func(cg string) (admin.Heat, error) {
			return curve(cg, 100*mib, time.Now().Add(-25*time.Minute)), nil
		}},
		{"nothing seen", `nothing was seen in use`, func(cg string) (admin.Heat, error) { return curve(cg, 0, time.Now()), nil }},
		{"nothing known", `watched ?for less`, func(cg string) (admin.Heat, error) {
			h := curve(cg, 100*mib, time.Now())
			for i := range h.Curve {
				h.Curve[i].Known = false
			}
			return h, nil
		}},
	} {
		f.set(func(f *fake) { f.heat = c.heat })
		p.openRow("redis-a")
		p.says("d-cold", c.says)
		p.keys(kb.Escape)
		p.wait(`!document.getElementById("drawer").open`)
	}
}

func olderDaemon(t *testing.T, p *tab) {
	p.allow = "404"
	srv := httptest.NewServer(without(Handler(older(), Options{}), "/v1/heat", "/v1/recommend"))
	defer srv.Close()
	p.do(chromedp.Navigate(srv.URL + "/"))
	p.wait(`document.body.dataset.state === "live" && document.querySelectorAll("#rows tr").length === 4`)
	p.says("endurance", `switched off .* or this daemon is older`)
	p.want(`document.getElementById("steering").closest("section").hidden`, "nothing to say, no panel")
	p.openRow("redis-a")
	p.says("d-cold", `older than access tracking`)
	p.says("d-size", `older than recommendations`)
	p.says("d-slo", `No signal`)
	p.says("d-memory", `No step has chosen`)
	p.want(`!/undefined|NaN|null/.test(document.body.innerText)`, "no hole shows")
	p.wait(`document.querySelectorAll("#d-log .log li").length > 10`)
}

func nodePanels(t *testing.T, p *tab) {
	f := demo()
	p.open(f)
	p.says("endurance", `12 % gone of ten minutes' worth within Budget a day 80\.0 GiB Counts swapping Left for steps now 501 MiB Swapping wrote 46\.0 MiB`)
	p.says("endurance", `nvme0n1 17\.3 years at the rate of the last day .*10 min 72\.0 KiB\/s 5\.93 GiB hour 61\.0 KiB\/s .* day 1\.05 MiB\/s 88\.5 GiB 3\.21 GiB written by anybody since .*; the budget counts what swapping writes`)
	p.says("steering", `41 % of the time that refaults cost counts as memory pressure \(measured in its own.* alone, p50 81 µs .*in order, each 1\.4 µs Measured in \/var\/lib\/spillway \(ext4\): .* Can be steered weigh file cache .* Cannot take anonymous memory`)
	p.want(`!/be able to/.test(document.getElementById("will").textContent)`, "said once")
	s := stopped()
	f.set(func(f *fake) {
		f.status.Endurance, f.status.PSIShare, f.status.FileRefault, f.status.FileRefaultWhy = s.status.Endurance, nil, nil, "no room"
	})
	p.says("endurance", `hard stop Hard stop: no step may write .*Counts every write .*no forecast for nvme0n1.*day 1\.05 MiB\/s 88\.5 GiB 111 %`)
	p.says("steering", `unknown, measured in .*unknown, no room`)
	f.set(func(f *fake) {
		e := *s.status.Endurance
		e.Drives, e.Price = nil, 0
		f.status.Endurance = &e
	})
	p.says("endurance", `no drive Nothing is written`)
}

func detailGone(t *testing.T, p *tab) {
	p.allow = "ERR_"
	f := demo()
	f.status.Period = 0 // asks each second
	g := &gate{Handler: Handler(f, Options{})}
	srv := httptest.NewServer(g)
	defer srv.Close()
	p.do(chromedp.Navigate(srv.URL + "/"))
	p.wait(`document.body.dataset.state === "live"`)
	p.openRow("redis-a")
	p.want(`document.getElementById("d-state").hidden`, "nothing is wrong")
	g.shut.Store(true)
	p.says("d-state", `The daemon does not answer\. What is shown is from \d`)
	p.want(`document.querySelector("#d-cold svg") && document.querySelector("#d-size .big")`, "what was read stays")
	g.shut.Store(false)
	p.wait(`document.body.dataset.state === "live" && document.getElementById("d-state").hidden`)
}
