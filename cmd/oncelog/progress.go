package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/oncelog/oncelog/ledger"
)

// progress runs f and, where w is a terminal and it takes over a second, shows
// that it goes on, and what show says of it, if it is not nil.
func progress(w io.Writer, what string, show func(time.Duration) string, f func() error) error {
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
				far := "…"
				if show != nil {
					far = show(d)
				}
				fmt.Fprintf(w, "\r%s %s %v\x1b[K", what, far, d.Round(100*time.Millisecond))
			}
		}
	}()
	err := f()
	close(done)
	<-stopped
	return err
}

// bar draws a share from 0 to 1.
func bar(share float64) string {
	const width = 20
	full := int(share * width)
	return fmt.Sprintf("[%s%s] %3.0f %%", strings.Repeat("#", full), strings.Repeat("-", width-full), 100*share)
}

// meter shows how far the ledger says that it has got.
type meter struct {
	now atomic.Pointer[ledger.Progress]
}

func (m *meter) tell(p ledger.Progress) { m.now.Store(&p) }

func (m *meter) show(elapsed time.Duration) string {
	p := m.now.Load()
	if p == nil {
		return "…"
	}
	s := fmt.Sprintf("%s %s/s", bar(float64(p.Done)/float64(max(p.Total, 1))), size(int64(float64(p.Done)/elapsed.Seconds())))
	if p.Entries+p.Records > 0 {
		s += fmt.Sprintf(", %d keys and %d records", p.Entries, p.Records)
	}
	return s
}
