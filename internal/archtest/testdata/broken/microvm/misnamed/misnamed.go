// Package helpers hides behind another folder's name.
package helpers
