package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/oncelog/oncelog/journal"
)

// A Verdict is what a check found out.
type Verdict int

// The verdicts.
const (
	// Unknown: the check could not tell. The key stays in doubt.
	Unknown Verdict = iota
	// Landed: the effect happened.
	Landed
	// NotLanded: the effect did not happen, and will not, if the effect's
	// Settle is long enough.
	NotLanded
)

// String is the verdict in words.
func (v Verdict) String() string {
	switch v {
	case Landed:
		return "landed"
	case NotLanded:
		return "not landed"
	}
	return "unknown"
}

// A Call is one attempt of an effect on an item.
type Call struct {
	Key journal.Key
	// Attempt numbers the attempts of the key, from 1.
	Attempt uint32
	// Generation counts how often the key was forgotten.
	Generation uint32
	// IdempotencyKey is the same for every attempt of the key's generation, and
	// for nothing else. Give it to the far side.
	IdempotencyKey string
}

func callOf(key journal.Key, attempt, generation uint32) Call {
	c := Call{Key: key, Attempt: attempt, Generation: generation, IdempotencyKey: key.String()}
	if generation > 0 {
		c.IdempotencyKey = fmt.Sprintf("%s#%d", c.IdempotencyKey, generation+1)
	}
	return c
}

// An Outcome is what a run produced, as Confirm gets it.
type Outcome[Out any] struct {
	// Value is Run's result; the zero value where Failed or NoResult.
	Value Out
	// NoResult says that the effect happened and its result is not known: a
	// check or a person said so, or it was let go.
	NoResult bool
	// Failed says that the effect failed permanently, for Reason.
	Failed bool
	Reason string
}

// An Effect is a kind of external action: how to run, check and confirm it. In
// and Out are encoded as JSON, except []byte and json.RawMessage, which are taken
// as they are. Its functions may be called concurrently.
type Effect[In, Out any] struct {
	// Name of the effect: letters, digits, '.', '_', '-' and ':'. It is part of
	// every key: renaming an effect makes all its keys fresh.
	Name string

	// Run makes the effect happen. What its error means is in the package
	// comment. The context ends with the caller's or after Timeout. Run must
	// not go on working after it has returned.
	Run func(ctx context.Context, call Call, in In) (Out, error)

	// Check asks the outside world whether an attempt in doubt happened, with
	// evidence in words. in is the zero value unless KeepInput is set. An error
	// means Unknown. Without Check, and without Idempotent, keys in doubt are
	// held for an operator.
	Check func(ctx context.Context, call Call, in In) (v Verdict, evidence string, err error)

	// Confirm tells the backend that the item is done. It is repeated until it
	// returns nil, and must be harmless to repeat. Without it a key settles as
	// soon as its outcome is recorded; keys that were executed while there was one
	// stay in the journal until there is one again.
	Confirm func(ctx context.Context, call Call, out Outcome[Out]) error

	// MaxAttempts is how many attempts may be made, each but the last proven
	// not to have happened, before that is a permanent failure. Defaults to 5.
	MaxAttempts int
	// Timeout ends Run's context; the attempt is then in doubt, unless Run
	// still says what happened. Defaults to none.
	Timeout time.Duration
	// CallTimeout ends the context of one Check or Confirm. Defaults to 30s.
	CallTimeout time.Duration
	// Settle is how long after an attempt's owner was gone the far side may
	// still act on its request. NotLanded does not count earlier.
	Settle time.Duration
	// Idempotent says that the far side deduplicates on Call.IdempotencyKey: an
	// attempt in doubt is run again, within Window of the first attempt.
	Idempotent bool
	// Window is how long the far side remembers an idempotency key. Required
	// with Idempotent. It is counted from the key's first attempt; a clock that
	// was set back since counts as too late.
	Window time.Duration
	// KeepInput keeps the input, up to 1 MiB, with the marker until the key is
	// settled, so that the drain can check with it and run another attempt by
	// itself.
	KeepInput bool
	// Fields names the members of the JSON input, at its top level, that make
	// an input the same. Defaults to the whole input.
	Fields []string
}

// effect is an Effect on encoded bytes.
type effect struct {
	name        string
	run         func(ctx context.Context, call Call, in []byte) ([]byte, error)
	check       func(ctx context.Context, call Call, in []byte) (Verdict, string, error)
	confirm     func(ctx context.Context, call Call, e *journal.Entry) error
	maxAttempts uint32
	timeout     time.Duration
	callTimeout time.Duration
	settle      time.Duration
	idempotent  bool
	window      time.Duration
	keepInput   bool
	fields      []string
}

// noResult says that the effect happened and its result cannot be recorded.
type noResult struct{ error }

const (
	defaultMaxAttempts = 5
	defaultCallTimeout = 30 * time.Second
)

func (e *Effect[In, Out]) validate() error {
	if err := journal.ValidateEffect(e.Name); err != nil {
		return err
	}
	switch {
	case e.MaxAttempts < 0:
		return fmt.Errorf("executor: effect %q: MaxAttempts is %d, want 0 or more", e.Name, e.MaxAttempts)
	case e.Timeout < 0 || e.CallTimeout < 0 || e.Settle < 0 || e.Window < 0:
		return fmt.Errorf("executor: effect %q: a negative duration", e.Name)
	case e.Idempotent && e.Window == 0:
		return fmt.Errorf("executor: effect %q: Idempotent needs Window, how long the far side remembers a key", e.Name)
	}
	return nil
}

// compile turns a typed effect into one on bytes.
func compile[In, Out any](e Effect[In, Out]) (*effect, error) {
	if err := e.validate(); err != nil {
		return nil, err
	}
	c := &effect{
		name: e.Name, maxAttempts: defaultMaxAttempts, timeout: e.Timeout, callTimeout: defaultCallTimeout,
		settle: e.Settle, idempotent: e.Idempotent, window: e.Window, keepInput: e.KeepInput, fields: e.Fields,
	}
	if e.MaxAttempts > 0 {
		c.maxAttempts = uint32(min(e.MaxAttempts, 1<<30))
	}
	if e.CallTimeout > 0 {
		c.callTimeout = e.CallTimeout
	}
	if e.Run != nil {
		c.run = func(ctx context.Context, call Call, in []byte) ([]byte, error) {
			v, err := decode[In](in)
			if err != nil {
				// Nothing was called.
				return nil, Permanent(err)
			}
			out, err := e.Run(ctx, call, v)
			if err != nil {
				return nil, err
			}
			b, err := encode(out)
			if err != nil {
				return nil, &noResult{err}
			}
			return b, nil
		}
	}
	if e.Check != nil {
		c.check = func(ctx context.Context, call Call, in []byte) (Verdict, string, error) {
			v, err := decode[In](in)
			if err != nil {
				return Unknown, "", err
			}
			return e.Check(ctx, call, v)
		}
	}
	if e.Confirm != nil {
		c.confirm = func(ctx context.Context, call Call, entry *journal.Entry) error {
			o := Outcome[Out]{NoResult: entry.NoResult, Failed: entry.Failed, Reason: entry.Reason}
			if !o.Failed && !o.NoResult {
				var err error
				if o.Value, err = decode[Out](entry.Result); err != nil {
					return err
				}
			}
			return e.Confirm(ctx, call, o)
		}
	}
	return c, nil
}

// fingerprint is over the whole input, or over the members that the effect names.
func (e *effect) fingerprint(in []byte) (uint64, error) {
	if len(e.fields) == 0 {
		return journal.Fingerprint(in), nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(in, &members); err != nil {
		return 0, fmt.Errorf("executor: effect %q: fields %q of an input that is no JSON object: %w: %w", e.name, e.fields, ErrBadInput, err)
	}
	chosen := map[string]json.RawMessage{}
	for _, name := range e.fields {
		if v, ok := members[name]; ok {
			chosen[name] = v
		}
	}
	b, err := json.Marshal(chosen)
	if err != nil {
		return 0, fmt.Errorf("executor: effect %q: %w", e.name, err)
	}
	return journal.Fingerprint(b), nil
}

// encode is the wire form of an input or a result.
func encode[T any](v T) ([]byte, error) {
	switch v := any(v).(type) {
	case []byte:
		return v, nil
	case json.RawMessage:
		return v, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("executor: encode %T: %w", v, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// decode reads what encode wrote; the zero value of no bytes.
func decode[T any](b []byte) (T, error) {
	var v T
	switch p := any(&v).(type) {
	case *[]byte:
		*p = b
		return v, nil
	case *json.RawMessage:
		*p = b
		return v, nil
	}
	if len(b) == 0 {
		return v, nil
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return v, fmt.Errorf("executor: decode %T: %w: %w", v, ErrBadInput, err)
	}
	return v, nil
}
