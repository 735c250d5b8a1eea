// Package twice is documented here too.
package twice
