package cgroup

// Usage reads how many bytes are charged to the cgroup now, descendants included: one system call.
func (g *Group) Usage() (int64, error) {
	if g.fds[fileUsage] < 0 { // the v2 root
		var s Stat
		err := g.Stat(&s)
		return s.Usage, err
	}
	n, err := readNumber(g.fds[fileUsage])
	if err != nil {
		return 0, g.fail("read", g.names()[fileUsage], err)
	}
	return n, nil
}

// statBuffer is on the stack of Stat. memory.stat has 1.5 to 3 KiB.
const statBuffer = 8 << 10

// Stat reads everything that Stat lists into dst. It allocates nothing. On an error dst says nothing.
func (g *Group) Stat(dst *Stat) error {
	*dst = Stat{Limit: Unlimited, SwapMax: Unlimited}
	var buf [statBuffer]byte
	b, err := readFile(g.fds[fileStat], buf[:])
	if err == nil {
		if g.v2 {
			err = parseStatV2(b, dst)
		} else {
			err = parseStatV1(b, dst)
		}
	}
	if err != nil {
		return g.fail("read", g.names()[fileStat], err)
	}
	numbers := [...]struct {
		file int
		dst  *int64
	}{{fileUsage, &dst.Usage}, {fileMax, &dst.Limit}, {fileMin, &dst.Min}, {fileLow, &dst.Low}, {fileSwap, &dst.Swap}, {fileSwapMax, &dst.SwapMax}}
	for _, n := range numbers {
		if g.fds[n.file] < 0 {
			continue
		}
		if *n.dst, err = readNumber(g.fds[n.file]); err != nil {
			return g.fail("read", g.names()[n.file], err)
		}
	}
	if g.fds[fileUsage] < 0 {
		dst.Usage = dst.Anon + dst.File
	}
	return g.events(dst, buf[:])
}

func (g *Group) events(dst *Stat, buf []byte) error {
	for _, file := range [...]int{fileEvents, fileOOM} {
		if g.fds[file] < 0 {
			continue
		}
		b, err := readFile(g.fds[file], buf)
		if err == nil {
			if file == fileEvents && !g.v2 {
				var n int64
				n, err = parseNumber(b)
				dst.FailCnt = uint64(n)
			} else {
				err = parseEvents(b, dst)
			}
		}
		if err != nil {
			return g.fail("read", g.names()[file], err)
		}
	}
	return nil
}
