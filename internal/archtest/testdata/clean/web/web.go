// Package web reads floor 2 only.
package web
