package bench
import ("testing";"context";"github.com/oncelog/oncelog/ledger";"github.com/oncelog/oncelog/journal";"github.com/oncelog/oncelog/internal/load";"github.com/oncelog/oncelog/internal/durable";"time";"syscall";"sync")
func zz(b *testing.B, f func(i int) error) {
	var r0, r1 syscall.Rusage
	syscall.Getrusage(0, &r0)
	t := time.Now()
	res, err := load.RunN(256, b.N, f)
	if err != nil { b.Fatal(err) }
	el := time.Since(t)
	syscall.Getrusage(0, &r1)
	cpu := func(a, c syscall.Timeval) float64 { return float64(c.Nano()-a.Nano()) }
	b.ReportMetric(cpu(r0.Utime,r1.Utime)/float64(b.N), "user-ns/rec")
	b.ReportMetric(cpu(r0.Stime,r1.Stime)/float64(b.N), "sys-ns/rec")
	b.ReportMetric(float64(b.N)/el.Seconds(), "rec/s")
	b.ReportMetric(float64(res.Waits.Quantile(.5).Microseconds()), "p50")
	b.ReportMetric(float64(res.Waits.Quantile(.99).Microseconds()), "p99")
}
func BenchmarkZZ(b *testing.B) {
	b.Run("limit", func(b *testing.B){
		c, cl, err := load.Limits["overwrite"](durable.OS, b.TempDir())
		if err != nil { b.Fatal(err) }
		g := load.NewGroup(c)
		zz(b, func(i int) error { return g.Append(marker(i)) })
		cl()
	})
	b.Run("do", func(b *testing.B){
		l, err := ledger.Create(b.TempDir(), ledger.Options{Store: "direct", SnapshotEvery: -1})
		if err != nil { b.Fatal(err) }
		var mu sync.Mutex
		var acc []journal.Key
		zz(b, func(i int) error {
			mu.Lock()
			if n := len(acc); n > 0 {
				k := acc[n-1]; acc = acc[:n-1]
				mu.Unlock()
				_, err := l.Execute(k, 1, ledger.Outcome{Result: payload, Settles: true, Cause: journal.Run})
				return err
			}
			mu.Unlock()
			k := key(i)
			if _, err := l.Accept(context.Background(), k, ledger.Input{Fingerprint: 7}); err != nil { return err }
			mu.Lock(); acc = append(acc, k); mu.Unlock()
			return nil
		})
		l.Close()
	})
}
