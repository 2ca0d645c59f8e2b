package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/oncelog/oncelog/executor"
	"github.com/oncelog/oncelog/ledger"
)

// maxLine is the most bytes that a line of a queue may have: an input of the
// largest size, escaped.
const maxLine = 2*ledger.MaxInput + 4<<10

// queueSource is the source that --queue names: a file of JSON lines, read again
// at every poll, - for stdin, or a URL.
func queueSource(name string, stdin io.Reader) executor.Source {
	switch {
	case name == "-":
		return &readerSource{name: "stdin", in: stdin}
	case strings.HasPrefix(name, "http://"), strings.HasPrefix(name, "https://"):
		return httpSource{url: name, client: &http.Client{Timeout: 5 * time.Minute}}
	}
	return fileSource(name)
}

type fileSource string

// Items implements executor.Source.
func (s fileSource) Items(context.Context) iter.Seq2[executor.Item, error] {
	return func(yield func(executor.Item, error) bool) {
		f, err := os.Open(string(s))
		if err != nil {
			yield(executor.Item{}, err)
			return
		}
		lines(string(s), f, yield)
		_ = f.Close() // it was only read
	}
}

// readerSource can be read once.
type readerSource struct {
	name string
	in   io.Reader
}

// Items implements executor.Source.
func (s *readerSource) Items(context.Context) iter.Seq2[executor.Item, error] {
	return func(yield func(executor.Item, error) bool) { lines(s.name, s.in, yield) }
}

// lines yields an item for each line, and a BadItemError for one that is none.
func lines(name string, r io.Reader, yield func(executor.Item, error) bool) {
	in := bufio.NewReaderSize(r, 64<<10)
	for n := 1; ; n++ {
		line, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errLongLine) {
			yield(executor.Item{}, fmt.Errorf("%s: %w", name, err))
			return
		}
		end := errors.Is(err, io.EOF)
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if line = bytes.TrimSpace(line); len(line) > 0 || errors.Is(err, errLongLine) {
			var item executor.Item
			if !errors.Is(err, errLongLine) {
				item, err = parseItem(line)
			}
			if err != nil {
				err = &executor.BadItemError{Where: fmt.Sprintf("%s:%d", name, n), Err: err}
			}
			if !yield(item, err) {
				return
			}
		}
		if end {
			return
		}
	}
}

var errLongLine = fmt.Errorf("a line of over %d bytes", maxLine)

// readLine reads up to the next newline. A line that is too long is read to its
// end and dropped, with errLongLine.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxLine; !long {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if long && err == nil {
			err = errLongLine
		} else if long && errors.Is(err, io.EOF) {
			err = errors.Join(errLongLine, io.EOF)
		}
		return line, err
	}
}

// parseItem reads {"id": …, "input": …}. An id that is a whole number counts as
// its digits.
func parseItem(line []byte) (executor.Item, error) {
	var v struct {
		ID    json.RawMessage `json:"id"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(line, &v); err != nil {
		return executor.Item{}, fmt.Errorf("not a line such as {\"id\": …, \"input\": …}: %w", err)
	}
	id, err := parseID(v.ID)
	if err != nil {
		return executor.Item{}, err
	}
	item := executor.Item{ID: id}
	if len(v.Input) > 0 && string(v.Input) != "null" {
		item.Input = v.Input
	}
	return item, nil
}

func parseID(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", errors.New("no \"id\"")
	}
	var s string
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &s); err != nil {
			return "", err
		}
		if s == "" {
			return "", errors.New("the \"id\" is empty")
		}
		return s, nil
	}
	var n int64
	if err := json.Unmarshal(raw, &n); err != nil {
		return "", fmt.Errorf("the \"id\" is %.40s, want a string or a whole number", raw)
	}
	return string(raw), nil
}

// httpSource is a URL that answers with lines, or with an array.
type httpSource struct {
	url    string
	client *http.Client
}

// Items implements executor.Source.
func (s httpSource) Items(ctx context.Context) iter.Seq2[executor.Item, error] {
	return func(yield func(executor.Item, error) bool) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
		if err != nil {
			yield(executor.Item{}, err)
			return
		}
		resp, err := s.client.Do(req)
		if err != nil {
			yield(executor.Item{}, err)
			return
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			yield(executor.Item{}, fmt.Errorf("GET %s: %s", s.url, resp.Status))
			return
		}
		in := bufio.NewReader(resp.Body)
		if isArray(in) {
			array(s.url, in, yield)
			return
		}
		lines(s.url, in, yield)
	}
}

// isArray looks for the first byte that is not white space.
func isArray(in *bufio.Reader) bool {
	for {
		c, err := in.ReadByte()
		if err != nil {
			return false
		}
		if c == ' ' || c == '\t' || c == '\r' || c == '\n' {
			continue
		}
		// UnreadByte cannot fail after a ReadByte.
		_ = in.UnreadByte()
		return c == '['
	}
}

func array(name string, in io.Reader, yield func(executor.Item, error) bool) {
	d := json.NewDecoder(in)
	if _, err := d.Token(); err != nil {
		yield(executor.Item{}, fmt.Errorf("%s: %w", name, err))
		return
	}
	for n := 0; d.More(); n++ {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			yield(executor.Item{}, fmt.Errorf("%s: element %d: %w", name, n, err))
			return
		}
		item, err := parseItem(raw)
		if err != nil {
			err = &executor.BadItemError{Where: fmt.Sprintf("%s: element %d", name, n), Err: err}
		}
		if !yield(item, err) {
			return
		}
	}
	if _, err := d.Token(); err != nil {
		yield(executor.Item{}, fmt.Errorf("%s: the array does not end: %w", name, err))
	}
}
