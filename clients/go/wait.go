package lockhouse

import (
	"context"
	"time"
)

const (
	// longestCall is the longest wait of one call: proxies end calls on which nothing moves.
	longestCall = 20 * time.Second
	// overlap is how long before a call ends the next one begins.
	overlap = time.Second
)

type outcome struct {
	answer asked
	err    error
}

// wait waits for room until then; for as long as it takes if until is zero. A long wait takes several calls
// under one id, each of which begins a second before the last one ends. So the server has one of them in its
// line all the time, and nobody behind gets by in between. The first answer but "no room" counts.
func (c *Client) wait(ctx context.Context, until time.Time, put func(until time.Time) call) (asked, error) {
	// What still waits when there is an answer is hung up on.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	outcomes := make(chan outcome, 1)
	open := 0
	var next <-chan time.Time
	begin := func() {
		now := time.Now()
		end := now.Add(longestCall)
		next = time.After(longestCall - overlap)
		if !until.IsZero() && !until.After(end) {
			end, next = until, nil
		}
		open++
		go func() {
			deadline := end.Add(c.timeout)
			if end.Before(now) {
				deadline = now.Add(c.timeout)
			}
			answer, err := c.ask(ctx, deadline, put(end))
			select {
			case outcomes <- outcome{answer, err}:
			case <-ctx.Done():
			}
		}()
	}
	begin()
	for {
		select {
		case <-ctx.Done():
			return asked{}, context.Cause(ctx)
		case <-next:
			begin()
		case it := <-outcomes:
			open--
			if !hasCode(it.err, ErrExhausted) {
				return it.answer, it.err
			}
			if open > 0 {
				continue
			}
			if !until.IsZero() && !time.Now().Before(until) {
				return asked{}, it.err
			}
			begin()
		}
	}
}
