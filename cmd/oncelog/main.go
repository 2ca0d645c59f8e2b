// Command oncelog makes an effect happen once, whatever is retried, redelivered,
// polled again, killed or cut off. It is the engine of package executor for
// people, and for programs that are not written in Go.
//
// # Invariants
//
//   - Results go to stdout, everything else to stderr, and the exit code alone
//     tells a script what happened; see exit.go.
//   - The command decides nothing that package executor or ledger decides.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	var silent silentExit
	if errors.As(err, &silent) {
		os.Exit(int(silent))
	}
	fmt.Fprintf(os.Stderr, "oncelog: %v\n", err)
	os.Exit(exitCode(err))
}
