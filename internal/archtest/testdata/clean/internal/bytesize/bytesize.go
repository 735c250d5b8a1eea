// Package bytesize is on floor 0.
package bytesize
