//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the command in a process group of its own, and makes the end of
// its context kill the whole group: a shell's children must not outlive it and
// act after the attempt was given up.
func ownGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}

// shell is the command that runs a line.
func shell(line string) []string { return []string{"/bin/sh", "-c", line} }
