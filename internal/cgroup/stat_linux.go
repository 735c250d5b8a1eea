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
	if err := g.moving(dst, buf[:]); err != nil {
		return err
	}
	if err := g.numbers(dst, fileMax, fileMin, fileLow, fileSwapMax); err != nil {
		return err
	}
	return g.events(dst, buf[:])
}

// Refresh reads again what changes by itself: memory.stat, the usage and swap. What people set and what rarely
// happens stays as dst has it from Stat (v1: FailCnt, OOMKills; v2 also Limit, Min, Low, SwapMax). It costs half the
// system calls of Stat. It allocates nothing. On an error dst says nothing.
func (g *Group) Refresh(dst *Stat) error {
	var buf [statBuffer]byte
	return g.moving(dst, buf[:])
}

func (g *Group) moving(dst *Stat, buf []byte) error {
	// A counter that the kernel leaves out reads as zero, not as what it was.
	*dst = Stat{
		Limit: dst.Limit, Min: dst.Min, Low: dst.Low, SwapMax: dst.SwapMax,
		FailCnt: dst.FailCnt, OOMKills: dst.OOMKills,
	}
	b, err := readFile(g.fds[fileStat], buf)
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
	if err := g.numbers(dst, fileUsage, fileSwap); err != nil {
		return err
	}
	if g.fds[fileUsage] < 0 {
		dst.Usage = dst.Anon + dst.File
	}
	return nil
}

// numbers reads files that hold one number each; absent ones are skipped.
func (g *Group) numbers(dst *Stat, files ...int) error {
	for _, file := range files {
		if g.fds[file] < 0 {
			continue
		}
		n, err := readNumber(g.fds[file])
		if err != nil {
			return g.fail("read", g.names()[file], err)
		}
		switch file {
		case fileUsage:
			dst.Usage = n
		case fileSwap:
			dst.Swap = n
		case fileMax:
			dst.Limit = n
		case fileMin:
			dst.Min = n
		case fileLow:
			dst.Low = n
		case fileSwapMax:
			dst.SwapMax = n
		}
	}
	return nil
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
