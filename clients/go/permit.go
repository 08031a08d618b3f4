package lockhouse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

const (
	// DefaultTTL is how long a hold outlives its last renewal, unless Ask.TTL says otherwise.
	DefaultTTL = 30 * time.Second
	// NoTTL as Ask.TTL: the hold is not renewed. It lasts until it is released, even if this process dies, or until
	// the server ends it as stale, by default after 24 hours.
	NoTTL time.Duration = -1
)

// Ask is an all-or-nothing request for permits on one or more semaphores.
type Ask struct {
	// Permits has the number of permits for each semaphore, by its name.
	Permits map[string]int
	// ExternalID identifies the request, so that it can be repeated: every repeat gets the one grant. Callers that
	// use one id hold it together, and the first release ends it for all. An id that has ended is refused with
	// ErrRequestEnded. If it is empty, each use has a fresh id.
	ExternalID string
	// Owner is free text that listings show.
	Owner string
	// TTL is how long the hold outlives its last renewal: DefaultTTL if zero, or NoTTL. Any other TTL under a
	// millisecond is refused with ErrInvalidRequest. A fraction of a millisecond is cut off.
	TTL time.Duration
	// Wait bounds the wait for room, besides the context. Acquire returns ErrExhausted when it is over. Zero is no
	// bound. A negative one is over already, so Acquire does not wait, like TryAcquire.
	Wait time.Duration
	// Priority is from -100 to 100. A waiter with a higher one is served first; each step is worth ten seconds of
	// waiting.
	Priority int
}

// Permit is what one request holds, on one or more semaphores. It is renewed in the background until it is released.
type Permit struct {
	// Request is the request as it was granted.
	Request Request

	client    *Client
	hold      *hold // nil if nothing ends it
	isOwn     bool  // whether the hold is this permit's, and not its session's
	isOurs    bool  // whether this package made the id
	isGranted bool  // whether the ask was answered so
	by        string
	ended     atomic.Pointer[error] // what Err says from the release on
	cancel    context.CancelCauseFunc
}

// Acquire waits for the permits and takes them, all at once. The context that it returns is cancelled when
// the hold is lost, with a LostError as its cause, and when the permit is released. It is derived from ctx. If ctx
// is done while it waits, it leaves the line. Its error is then ctx.Err() for errors.Is, and the context's cause too.
//
// With an error, the permit is nil, and the context is ctx itself.
func (c *Client) Acquire(ctx context.Context, ask Ask) (context.Context, *Permit, error) {
	return c.acquire(ctx, ask, false, nil)
}

// TryAcquire takes the permits if there is room now and nobody waits for it; ErrExhausted if not.
func (c *Client) TryAcquire(ctx context.Context, ask Ask) (context.Context, *Permit, error) {
	return c.acquire(ctx, ask, true, nil)
}

// Do runs f under the permits, then releases them. It returns the error of f, or else a LostError if the hold was
// lost meanwhile. It never runs f without the permits.
func (c *Client) Do(ctx context.Context, ask Ask, f func(context.Context, *Permit) error) error {
	held, permit, err := c.Acquire(ctx, ask)
	if err != nil {
		return err
	}
	return do(ctx, held, permit, f)
}

func do(ctx, held context.Context, permit *Permit, f func(context.Context, *Permit) error) (err error) {
	defer func() {
		released := permit.Release(ctx)
		var lost *LostError
		if err == nil && errors.As(released, &lost) {
			err = released
		}
	}()
	return f(held, permit)
}

type acquireBody struct {
	Permits  []askedPermit `json:"permits"`
	Owner    string        `json:"owner,omitempty"`
	TTLMs    *int64        `json:"ttl_ms,omitempty"` // nil is no time to live
	WaitMs   int64         `json:"wait_ms"`
	Priority int           `json:"priority,omitempty"`
}

type askedPermit struct {
	Semaphore string `json:"semaphore"`
	Count     int    `json:"count"`
}

func (c *Client) acquire(ctx context.Context, ask Ask, isTry bool, session *hold) (context.Context, *Permit, error) {
	if ctx.Err() != nil {
		return ctx, nil, whyDone(ctx)
	}
	ttl := ask.TTL
	if ttl == 0 {
		ttl = DefaultTTL
	}
	body := acquireBody{Owner: ask.Owner, Priority: ask.Priority}
	if ttl != NoTTL {
		ttlMs, err := milliseconds("a TTL", ttl)
		if err != nil {
			return ctx, nil, err
		}
		body.TTLMs = &ttlMs
	}
	for name, count := range ask.Permits {
		body.Permits = append(body.Permits, askedPermit{name, count})
	}
	isOurs := ask.ExternalID == ""
	if isOurs {
		ask.ExternalID = newID()
	}
	permit := &Permit{client: c, isOurs: isOurs, by: ask.Owner}
	if permit.by == "" {
		permit.by = thisProcess()
	}
	err := permit.grant(ctx, ask, body, isTry, session)
	if err != nil {
		// The request may have been granted. Only this caller knows its id, so nobody else could release it.
		if isOurs && (permit.isGranted || ctx.Err() != nil || maybeApplied(err)) {
			c.releaseInBackground(ask.ExternalID, permit.by, time.Now().Add(ttl), ttl == NoTTL, true)
		}
		return ctx, nil, err
	}
	held, cancel := context.WithCancelCause(ctx)
	permit.cancel = cancel
	c.opened(permit)
	if permit.hold == nil {
		return held, permit, nil
	}
	permit.hold.tell(permit)
	return heldContext{held, permit.hold}, permit, nil
}

// grant asks until the permits are granted.
func (p *Permit) grant(ctx context.Context, ask Ask, body acquireBody, isTry bool, session *hold) error {
	at, err := path("requests", ask.ExternalID)
	if err != nil {
		return err
	}
	if session != nil {
		if session.err() != nil {
			return sessionEnded(ask.Owner)
		}
		var stop func()
		ctx, stop = withSession(ctx, session, ask.Owner)
		defer stop()
	}
	askedAt := time.Now()
	until := time.Time{}
	if ask.Wait > 0 {
		until = askedAt.Add(ask.Wait)
	}
	if isTry || ask.Wait < 0 {
		until = askedAt
	}
	answer, err := p.client.wait(ctx, until, func(until time.Time) call {
		return call{method: "PUT", path: at, body: func() any {
			body := body
			body.WaitMs = max(time.Until(until).Milliseconds(), 0)
			return body
		}}
	})
	if err != nil {
		return err
	}
	p.isGranted = true
	if err := p.client.read(answer, &p.Request); err != nil {
		return err
	}
	if p.Request.TTLMs == nil {
		p.hold = session
		return nil
	}
	// From when the time to live surely runs: a grant of another moment is renewed first.
	sentAt, ttl := askedAt, p.Request.TTL()
	if answer.status != 201 || time.Since(askedAt) > ttl/6 {
		sentAt, ttl = time.Now(), max(ttl, ask.TTL.Truncate(time.Millisecond))
		if _, err := p.client.Renew(ctx, ask.ExternalID, ttl); err != nil {
			return err
		}
	}
	p.isOwn = true
	p.hold = newHold("request "+ask.ExternalID, ttl, sentAt, p.client.renewal(at+"/renew", "POST", renewBody(ttl)))
	return nil
}

// Release gives the permits back, even if ctx is done. It returns a LostError if the hold was lost before, and
// ErrReleased if the permit was released before. If the server does not answer within the timeout, it returns
// ErrStoreUnavailable. The release is then tried again in the background, unless the caller chose the id.
func (p *Permit) Release(ctx context.Context) error {
	if !p.end() {
		return ErrReleased
	}
	released, err := p.client.end(context.WithoutCancel(ctx), p.Request.ExternalID, p.by, false)
	if isUnanswered(err) {
		p.releaseInBackground()
	}
	switch {
	case p.Err() != ErrReleased:
		return p.Err()
	case hasCode(err, ErrUnknownRequest):
		return &LostError{What: "request " + p.Request.ExternalID, Reason: "unknown"}
	case err == nil && !released:
		return &LostError{What: "request " + p.Request.ExternalID, Reason: "released"}
	}
	return err
}

// Err is nil while the permits are held, and a LostError once they are lost, by the clock at the call. Check it
// before each step that can't be undone. After Release it is ErrReleased, unless they were lost before.
func (p *Permit) Err() error {
	if ended := p.ended.Load(); ended != nil {
		return *ended
	}
	if p.hold == nil {
		return nil
	}
	return p.hold.err()
}

// Fence is the fence on a semaphore: a number that rises with every grant on it. It is 0 if the request was
// not for that semaphore.
func (p *Permit) Fence(semaphore string) uint64 { return p.of(semaphore).Fence }

// Slots are the slots on a semaphore: indexes that no other live permit has. It is empty if it is not slotted.
func (p *Permit) Slots(semaphore string) []int { return p.of(semaphore).Slots }

func (p *Permit) of(semaphore string) HeldPermit {
	for _, held := range p.Request.Permits {
		if held.Semaphore == semaphore {
			return held
		}
	}
	return HeldPermit{}
}

// end reports whether the permit was open until now.
func (p *Permit) end() bool {
	ended := ErrReleased
	if lost := p.Err(); lost != nil {
		ended = lost
	}
	if !p.ended.CompareAndSwap(nil, &ended) {
		return false
	}
	p.client.closed(p)
	if p.hold != nil {
		p.hold.forget(p)
		if p.isOwn {
			p.hold.stop()
		}
	}
	p.cancel(nil)
	return true
}

// close releases for Client.Close, to which it is all one whether the hold had ended before.
func (p *Permit) close(ctx context.Context) error {
	err := p.Release(ctx)
	var lost *LostError
	if errors.Is(err, ErrReleased) || errors.As(err, &lost) {
		return nil
	}
	return err
}

func (p *Permit) releaseInBackground() {
	endsAt := time.Now()
	if p.hold != nil {
		endsAt = endsAt.Add(p.hold.ttl)
	}
	if p.isOurs {
		p.client.releaseInBackground(p.Request.ExternalID, p.by, endsAt, p.hold == nil, false)
	}
}

// releaseInBackground releases in the background, every two seconds until endsAt. A request that its ask may reach the
// server after this, as mayComeYet says, is released again a second later.
func (c *Client) releaseInBackground(id, by string, endsAt time.Time, isEndless, mayComeYet bool) {
	c.background.Add(1)
	go func() {
		defer c.background.Done()
		for {
			_, err := c.end(context.Background(), id, by, false)
			if hasCode(err, ErrUnknownRequest) && mayComeYet {
				mayComeYet = false
				time.Sleep(time.Second)
				continue
			}
			if !isUnanswered(err) {
				return
			}
			time.Sleep(2 * time.Second)
			if !isEndless && time.Now().After(endsAt) {
				return
			}
		}
	}()
}

// heldContext compares with the clock at each check, so that a process that was stopped need not wait for its
// timers.
type heldContext struct {
	context.Context
	hold *hold
}

func (c heldContext) Err() error {
	_ = c.hold.err()
	return c.Context.Err()
}

// withSession is cancelled when the session is lost.
func withSession(ctx context.Context, session *hold, owner string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-session.done:
			cancel(ownReason{sessionEnded(owner)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

func sessionEnded(owner string) error {
	detail := fmt.Sprintf("the session of %q has ended; begin another", owner)
	// The server may still grant the request, which then has no time to live.
	return &Error{Code: "session_ended", Detail: detail, MaybeApplied: true}
}

// thisProcess is its host and its pid, as the other clients say it.
func thisProcess() string {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Sprintf("pid %d", os.Getpid())
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}
