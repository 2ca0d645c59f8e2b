package executor_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/oncelog/oncelog/executor"
	"github.com/oncelog/oncelog/ledger"
)

type Mail struct{ To string }

func smtpSend(_ context.Context, key string, m Mail) (string, error) {
	fmt.Printf("mail to %s with key %s\n", m.To, key)
	return "250 OK", nil
}

func Example() {
	dir, err := os.MkdirTemp("", "oncelog-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	l, err := ledger.Open(filepath.Join(dir, "state"), ledger.Options{Create: true})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	x := executor.New(l, executor.Options{})
	defer x.Close(ctx)
	send, err := executor.Register(x, executor.Effect[Mail, string]{
		Name: "send-email",
		Run: func(ctx context.Context, c executor.Call, m Mail) (string, error) {
			return smtpSend(ctx, c.IdempotencyKey, m)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		res, err := send.Do(ctx, "lead-17", Mail{To: "a@example.com"}) // again, after a crash, from ten goroutines: one email
		fmt.Println(res.Value, res.Replayed, err)
	}
	// Output:
	// mail to a@example.com with key send-email/lead-17
	// 250 OK false <nil>
	// 250 OK true <nil>
	// 250 OK true <nil>
}

// An effect that can be checked decides by itself what is in doubt, and one that
// is confirmed tells the backend until it has heard.
func ExampleEffect() {
	client := &http.Client{Transport: executor.RoundTripper(nil)}
	get := func(ctx context.Context, url string) (int, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return 0, executor.Permanent(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, err // NotApplied if it was never written, in doubt otherwise
		}
		return resp.StatusCode, resp.Body.Close()
	}
	charge := executor.Effect[string, int]{
		Name: "charge",
		Run: func(ctx context.Context, c executor.Call, order string) (int, error) {
			return get(ctx, "https://pay.example/charge?key="+c.IdempotencyKey)
		},
		Check: func(ctx context.Context, c executor.Call, order string) (executor.Verdict, string, error) {
			switch code, err := get(ctx, "https://pay.example/charges/"+c.IdempotencyKey); {
			case err != nil:
				return executor.Unknown, "", err
			case code == http.StatusOK:
				return executor.Landed, "the provider has it", nil
			case code == http.StatusNotFound:
				return executor.NotLanded, "the provider has no record", nil
			default:
				return executor.Unknown, fmt.Sprint("status ", code), nil
			}
		},
		Settle: time.Minute, // how long the provider may still be working on it
		Confirm: func(ctx context.Context, c executor.Call, _ executor.Outcome[int]) error {
			_, err := get(ctx, "https://shop.example/paid/"+c.Key.Item)
			return err
		},
	}
	fmt.Println(charge.Name)
	// Output: charge
}
