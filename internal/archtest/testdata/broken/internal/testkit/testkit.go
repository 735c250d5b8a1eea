// Package testkit is for tests.
package testkit
