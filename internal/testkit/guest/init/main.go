//go:build linux

// Command init is PID 1 of a test guest: it follows the Plan that the host put into the initramfs, reports in
// Frames on the second serial port, and powers the machine off.
//
// Promise: whatever happens, the guest ends: a failed plan is a fail frame and a power-off, a crash of the part
// that follows the plan is noticed by PID 1. Ownership: the guest is ours alone, so nothing is put back.
// Failure: the first step that fails ends the run; a test in a half-built guest would prove nothing.
// Non-goals: logins, networks beyond loopback, a second run in the same boot.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/u-root/u-root/pkg/libinit"

	"github.com/spillway-io/spillway/internal/testkit/guest/wire"
)

func main() {
	if os.Getpid() != 1 {
		conduct()
		return
	}
	if err := mountAll(); err != nil {
		fmt.Println("init:", err) // the console; there is no port yet
		powerOff()
	}
	superviseConductor()
}

// superviseConductor runs this program a second time to follow the plan. PID 1 itself only reaps: an orphan that
// stays a zombie would look alive to a test that asks whether a process is gone.
func superviseConductor() {
	c := exec.Command("/proc/self/exe")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Start(); err != nil {
		fmt.Println("init: start conductor:", err)
		powerOff()
	}
	go func() {
		// The reaper below takes the exit status, so absence of the process is the only sign.
		for exists("/proc/" + strconv.Itoa(c.Process.Pid)) {
			time.Sleep(100 * time.Millisecond)
		}
		fmt.Println("init: conductor ended")
		powerOff()
	}()
	for {
		libinit.WaitOrphans()
		time.Sleep(10 * time.Millisecond) // no child left: only until the power goes
	}
}

func conduct() {
	port, err := os.OpenFile(wire.Port, os.O_WRONLY, 0)
	if err != nil {
		fmt.Println("init: open port:", err)
		return
	}
	out := wire.NewEncoder(port)
	boot := wire.Frame{Kind: wire.KindBoot, Release: firstLine("/proc/sys/kernel/osrelease"), Uptime: uptime()}
	if err := follow(out, boot); err != nil {
		out.Encode(wire.Frame{Kind: wire.KindFail, Message: err.Error()}) // a failure here ends the run by silence
	}
	port.Close() // waits until the last byte left
	powerOff()
}

func follow(out *wire.Encoder, boot wire.Frame) error {
	plan, err := readPlan(wire.PlanPath)
	if err != nil {
		return err
	}
	m := machine{zswap: plan.Zswap}
	if err := m.prepare(plan); err != nil {
		return err
	}
	if err := out.Encode(boot); err != nil {
		return err
	}
	for i, p := range plan.Programs {
		if err := m.offloads(!p.Bare); err != nil {
			return err
		}
		if err := runProgram(out, i, p); err != nil {
			return err
		}
	}
	return out.Encode(wire.Frame{Kind: wire.KindDone})
}

// powerOff does not return. The disks are throw-away, so nothing is synced.
func powerOff() {
	if err := os.WriteFile("/proc/sysrq-trigger", []byte("o"), 0); err != nil {
		fmt.Println("init: power off:", err)
		os.Exit(1) // as PID 1: a panic, and panic=-1 ends the machine
	}
	select {}
}
