package web

import (
	"net"
	"net/http"
	"strings"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/errkind"
)

// policy admits this origin's files and nothing inline. Trusted types close the DOM's text-to-code doors.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guard stands before everything: it checks who is asked for and how, and sets what every answer carries.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		if !loopbackName(r.Host) {
			admin.WriteError(w, errkind.Hint(errkind.New(errkind.Denied, "web: the name in the address is not this machine's loopback"),
				"open http://127.0.0.1:PORT/ or http://localhost:PORT/; from elsewhere: ssh -L PORT:127.0.0.1:PORT NODE"))
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			admin.MethodNotAllowed(w, r, http.MethodGet, http.MethodHead)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopbackName says whether a Host header names this machine's loopback. Any port is good: a tunnel brings its
// own, and what an attacker can choose by rebinding is the name, not that it is "localhost".
func loopbackName(host string) bool {
	name, port := host, ""
	if strings.Contains(strings.TrimPrefix(host, "["), ":") {
		var err error
		if name, port, err = net.SplitHostPort(host); err != nil {
			if host != "[::1]" {
				return false
			}
			name = "::1"
		}
	}
	for _, c := range port {
		if c < '0' || c > '9' {
			return false
		}
	}
	switch strings.ToLower(name) {
	case "localhost", "127.0.0.1", "::1":
		return true
	}
	return false
}
