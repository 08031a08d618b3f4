package lockhouse

import (
	"context"
	"time"
)

// Semaphore is a handle on a named semaphore, with the methods of golang.org/x/sync/semaphore. It holds nothing
// itself.
type Semaphore struct {
	client   *Client
	name     string
	capacity *int
	ttl      time.Duration
}

// Semaphore returns a handle on the semaphore of this name, which must exist or match a template.
func (c *Client) Semaphore(name string) *Semaphore { return &Semaphore{client: c, name: name} }

// OrCreate returns a handle that creates the semaphore with this capacity on first use, if there is none. One
// that exists keeps its capacity.
func (s *Semaphore) OrCreate(capacity int) *Semaphore {
	other := *s
	other.capacity = &capacity
	return &other
}

// WithTTL returns a handle whose holds outlive their last renewal by ttl, as Ask.TTL; DefaultTTL unless set.
func (s *Semaphore) WithTTL(ttl time.Duration) *Semaphore {
	other := *s
	other.ttl = ttl
	return &other
}

// Acquire waits for n permits and takes them. The context that it returns is cancelled when the hold is
// lost, and at its release. With an error, the permit is nil, and the context is ctx; see Client.Acquire.
func (s *Semaphore) Acquire(ctx context.Context, n int) (context.Context, *Permit, error) {
	return s.acquire(ctx, n, s.client.Acquire)
}

// TryAcquire takes n permits if there is room now and nobody waits for it; ErrExhausted if not.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (context.Context, *Permit, error) {
	return s.acquire(ctx, n, s.client.TryAcquire)
}

// Do runs f under n permits, then releases them. It returns the error of f, or else a LostError if the hold was
// lost meanwhile. It never runs f without the permits.
func (s *Semaphore) Do(ctx context.Context, n int, f func(context.Context, *Permit) error) error {
	held, permit, err := s.Acquire(ctx, n)
	if err != nil {
		return err
	}
	return do(ctx, held, permit, f)
}

type acquire func(context.Context, Ask) (context.Context, *Permit, error)

func (s *Semaphore) acquire(ctx context.Context, n int, acquire acquire) (context.Context, *Permit, error) {
	ask := Ask{Permits: map[string]int{s.name: n}, TTL: s.ttl}
	held, permit, err := acquire(ctx, ask)
	if s.capacity == nil || !hasCode(err, ErrUnknownSemaphore) {
		return held, permit, err
	}
	if _, err := s.client.DefineIfMissing(ctx, s.name, *s.capacity); err != nil {
		return ctx, nil, err
	}
	return acquire(ctx, ask)
}
