// Package testkit is for tests and may use the floors.
package testkit

import _ "example.com/clean/internal/sys"
