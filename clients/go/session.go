package lockhouse

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Session keeps all that is acquired through it by one heartbeat, however much that is. The permits are lost
// when the session is. A permit does not learn that its request alone was ended, by force.
type Session struct {
	client *Client
	owner  string
	hold   *hold
	ended  atomic.Bool
}

// Session begins an owner's session. Without a heartbeat for ttl the server ends it; a ttl under a millisecond is
// refused with ErrInvalidRequest. Two processes must not have sessions of the same owner at the same time: a goodbye
// releases all that the owner holds.
func (c *Client) Session(ctx context.Context, owner string, ttl time.Duration) (*Session, error) {
	at, err := path("owners", owner)
	if err != nil {
		return nil, err
	}
	ttlMs, err := milliseconds("the TTL of a session", ttl)
	if err != nil {
		return nil, err
	}
	sentAt := time.Now()
	begin := map[string]any{"ttl_ms": ttlMs}
	if _, err := c.do(ctx, call{method: "PUT", path: at, body: fixed(begin)}, nil); err != nil {
		return nil, err
	}
	goOn := map[string]any{"ttl_ms": ttlMs, "must_exist": true}
	hold := newHold("the session of "+owner, ttl.Truncate(time.Millisecond), sentAt, c.renewal(at, "PUT", goOn))
	session := &Session{client: c, owner: owner, hold: hold}
	c.opened(session)
	return session, nil
}

// Acquire is Client.Acquire for the session's owner. The session keeps the permits, so they have no time to live:
// Owner and TTL of the ask are not used.
func (s *Session) Acquire(ctx context.Context, ask Ask) (context.Context, *Permit, error) {
	ask.Owner, ask.TTL = s.owner, NoTTL
	return s.client.acquire(ctx, ask, false, s.hold)
}

// TryAcquire is Client.TryAcquire for the session's owner.
func (s *Session) TryAcquire(ctx context.Context, ask Ask) (context.Context, *Permit, error) {
	ask.Owner, ask.TTL = s.owner, NoTTL
	return s.client.acquire(ctx, ask, true, s.hold)
}

// Lost is closed when the session is lost, and with it all that it keeps; and at its goodbye.
func (s *Session) Lost() <-chan struct{} { return s.hold.done }

// Err is nil while the session goes on, and a LostError once it is lost, by the clock at the call.
func (s *Session) Err() error { return s.hold.err() }

// Goodbye releases all that the owner holds, and ends the session. It returns how many requests it released. If the
// session was lost before, it releases nothing and returns a LostError.
func (s *Session) Goodbye(ctx context.Context) (int, error) {
	if !s.ended.CompareAndSwap(false, true) {
		return 0, nil
	}
	s.client.closed(s)
	// The permits of a lost session were freed, and another session may have its name.
	if lost := s.hold.err(); lost != nil {
		return 0, lost
	}
	_ = s.hold.lose(&LostError{What: s.hold.what, Reason: "released"})
	return s.client.goodbye(context.WithoutCancel(ctx), s.owner)
}

func (s *Session) close(ctx context.Context) error {
	_, err := s.Goodbye(ctx)
	var lost *LostError
	if errors.As(err, &lost) {
		return nil
	}
	return err
}

func (c *Client) goodbye(ctx context.Context, owner string) (int, error) {
	at, err := path("owners", owner)
	if err != nil {
		return 0, err
	}
	var answer struct {
		Released int `json:"released"`
	}
	_, err = c.do(ctx, call{method: "DELETE", path: at}, &answer)
	return answer.Released, err
}

// renewal makes one try, of which the keeper of the hold makes as many as it takes.
func (c *Client) renewal(at, method string, body any) renewal {
	return func(ctx context.Context, deadline time.Time) error {
		_, failed := c.once(ctx, deadline, call{method: method, path: at, body: fixed(body)})
		if failed == nil {
			return nil
		}
		switch {
		case errors.Is(failed.err, ErrRequestEnded):
			return &LostError{Reason: failed.err.EndReason}
		case errors.Is(failed.err, ErrSessionEnded):
			return &LostError{Reason: "owner_dead"}
		case errors.Is(failed.err, ErrUnknownRequest):
			return &LostError{Reason: "unknown"}
		}
		return failed.err
	}
}
