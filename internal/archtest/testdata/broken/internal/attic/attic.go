// Package attic is on no floor.
package attic
