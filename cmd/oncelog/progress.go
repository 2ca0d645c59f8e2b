package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// progress runs f and, where w is a terminal and it takes over a second, shows
// that it goes on, and how much is done where share, from 0 to 1, is known.
func progress(w io.Writer, what string, share func() float64, f func() error) error {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return f()
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for start := time.Now(); ; {
			select {
			case <-done:
				fmt.Fprint(w, "\r\x1b[K")
				return
			case <-tick.C:
				d := time.Since(start)
				if d <= time.Second {
					continue
				}
				done := ""
				if share != nil {
					done = fmt.Sprintf(" %3.0f %%", 100*share())
				}
				fmt.Fprintf(w, "\r%s …%s %v", what, done, d.Round(100*time.Millisecond))
			}
		}
	}()
	err := f()
	close(done)
	<-stopped
	return err
}
