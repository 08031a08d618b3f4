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
// line all the time, and nobody behind gets by in between. The first answer other than "no room" counts.
//
// The first call is made by the caller's own goroutine, as most waits have no other. A grant to a later one ends it.
func (c *Client) wait(ctx context.Context, until time.Time, put func(until time.Time) call) (asked, error) {
	// The calls that still wait when there is an answer are cancelled.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first, granted := context.WithCancel(ctx)
	defer granted()
	later := &laterCalls{outcomes: make(chan outcome, 1), granted: granted}
	begin := func() { later.begin(ctx, c, until, put) }

	now := time.Now()
	end, isLast := endOf(now, until)
	begun := make(chan struct{})
	var timer *time.Timer
	if !isLast {
		timer = time.AfterFunc(longestCall-overlap, func() {
			begin()
			close(begun)
		})
		defer timer.Stop()
	}
	answer, err := c.ask(first, c.deadline(now, end), put(end))
	hasNext := timer != nil && !timer.Stop()
	if hasNext {
		<-begun
	}
	isFull := hasCode(err, ErrExhausted)
	switch {
	case hasNext && ctx.Err() == nil && (isFull || isUnanswered(err)):
		// The next one is in the line, or granted.
	case !isFull || isLast && !time.Now().Before(until):
		return answer, err
	default:
		begin()
	}
	return later.answered(ctx, until, begin)
}

// laterCalls are those after the first. Only one goroutine at a time has them.
type laterCalls struct {
	outcomes chan outcome
	granted  func() // called after the outcome
	open     int
	next     <-chan time.Time
}

func (l *laterCalls) begin(ctx context.Context, c *Client, until time.Time, put func(until time.Time) call) {
	now := time.Now()
	end, isLast := endOf(now, until)
	l.next = nil
	if !isLast {
		l.next = time.After(longestCall - overlap)
	}
	l.open++
	go func() {
		answer, err := c.ask(ctx, c.deadline(now, end), put(end))
		select {
		case l.outcomes <- outcome{answer, err}:
		case <-ctx.Done():
		}
		if err == nil {
			l.granted()
		}
	}()
}

func (l *laterCalls) answered(ctx context.Context, until time.Time, begin func()) (asked, error) {
	for {
		select {
		case <-ctx.Done():
			return asked{}, whyDone(ctx)
		case <-l.next:
			begin()
		case it := <-l.outcomes:
			l.open--
			if !hasCode(it.err, ErrExhausted) {
				return it.answer, it.err
			}
			if l.open > 0 {
				continue
			}
			if !until.IsZero() && !time.Now().Before(until) {
				return asked{}, it.err
			}
			begin()
		}
	}
}

// endOf is when a call that begins now ends, and whether it is the last one.
func endOf(now, until time.Time) (time.Time, bool) {
	end := now.Add(longestCall)
	if !until.IsZero() && !until.After(end) {
		return until, true
	}
	return end, false
}

// deadline is that of a call which waits until end.
func (c *Client) deadline(now, end time.Time) time.Time {
	if end.Before(now) {
		end = now
	}
	return end.Add(c.timeout)
}
