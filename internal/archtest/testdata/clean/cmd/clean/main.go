// Command clean joins a room and web.
package main

import (
	_ "example.com/clean/offload"
	_ "example.com/clean/web"
)

func main() {}
