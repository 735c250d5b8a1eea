// Package twice is documented here.
package twice
