// Package util is a drawer.
package util
