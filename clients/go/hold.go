package lockhouse

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// renewal renews a hold once. A LostError says that it has ended; other errors say nothing.
type renewal func(ctx context.Context, deadline time.Time) error

// hold is renewed by a goroutine until it is stopped or lost. It counts as lost a tenth of the time to live
// before the server could end it, by the monotonic clock of this process, from when the last successful call
// was sent. Each check compares with that clock, so a process that was stopped finds the hold lost at once.
// A lost hold stays lost.
type hold struct {
	what  string
	ttl   time.Duration
	renew renewal
	stop  context.CancelFunc

	mu    sync.Mutex
	until time.Time
	lost  error
	told  map[*Permit]struct{}
	done  chan struct{}
}

func newHold(what string, ttl time.Duration, sentAt time.Time, renew renewal) *hold {
	ctx, stop := context.WithCancel(context.Background())
	h := &hold{
		what:  what,
		ttl:   ttl,
		renew: renew,
		stop:  stop,
		until: giveUpAt(sentAt, ttl),
		told:  map[*Permit]struct{}{},
		done:  make(chan struct{}),
	}
	go h.keep(ctx, sentAt)
	return h
}

func giveUpAt(sentAt time.Time, ttl time.Duration) time.Time { return sentAt.Add(ttl - ttl/10) }

// err is why it is lost, by the clock at the call.
func (h *hold) err() error {
	h.mu.Lock()
	isOver := h.lost == nil && !time.Now().Before(h.until)
	lost := h.lost
	h.mu.Unlock()
	if isOver {
		return h.lose(&LostError{What: h.what, Reason: "not_renewed"})
	}
	return lost
}

// lose makes it lost for why, unless it was before; why it is.
func (h *hold) lose(why error) error {
	h.mu.Lock()
	if h.lost != nil {
		h.mu.Unlock()
		return h.lost
	}
	h.lost = why
	told := h.told
	h.told = nil
	close(h.done)
	h.mu.Unlock()
	h.stop()
	for permit := range told {
		permit.cancel(why)
	}
	return why
}

// tell has permit's context cancelled when it is lost.
func (h *hold) tell(permit *Permit) {
	h.mu.Lock()
	lost := h.lost
	if lost == nil {
		h.told[permit] = struct{}{}
	}
	h.mu.Unlock()
	if lost != nil {
		permit.cancel(lost)
	}
}

func (h *hold) forget(permit *Permit) {
	h.mu.Lock()
	delete(h.told, permit)
	h.mu.Unlock()
}

// keep renews. A call on a dead connection may hang, so one that is not answered soon gets another beside it.
func (h *hold) keep(ctx context.Context, sentAt time.Time) {
	type renewed struct {
		sentAt time.Time
		err    error
	}
	answers := make(chan renewed)
	next := sentAt.Add(h.soon())
	for {
		h.mu.Lock()
		until := h.until
		h.mu.Unlock()
		wake := next
		if until.Before(wake) {
			wake = until
		}
		timer := time.NewTimer(time.Until(wake))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			now := time.Now()
			if h.err() != nil {
				return
			}
			if now.Before(next) {
				continue
			}
			next = now.Add(h.ttl / 4)
			go func() {
				err := h.renew(ctx, now.Add(10*time.Second))
				select {
				case answers <- renewed{now, err}:
				case <-ctx.Done():
				}
			}()
		case answer := <-answers:
			timer.Stop()
			var lost *LostError
			switch {
			case answer.err == nil:
				h.extend(giveUpAt(answer.sentAt, h.ttl))
				next = answer.sentAt.Add(h.soon())
			case errors.As(answer.err, &lost):
				lost.What = h.what
				_ = h.lose(lost)
				return
			default:
				if soon := time.Now().Add(min(h.ttl/12, time.Second)); soon.Before(next) {
					next = soon
				}
			}
		}
	}
}

func (h *hold) extend(until time.Time) {
	if h.err() != nil {
		return
	}
	h.mu.Lock()
	if h.until.Before(until) {
		h.until = until
	}
	h.mu.Unlock()
}

// soon is a third of the time to live, or up to a fifth less, so that holds that began together do not go on
// in step.
func (h *hold) soon() time.Duration {
	return time.Duration(float64(h.ttl/3) * (1 - rand.Float64()/5))
}
