package lockhouse_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockhouse/lockhouse/clients/go"
)

// The tests of golang.org/x/sync/semaphore, on a semaphore of this package: the same names, the same steps. A permit
// here is a value that is released once, so weighted keeps those that are held, and a release of n takes permits that
// add up to n. An ask for no permits, which that package grants, is refused here.

// weighted has the methods of semaphore.Weighted.
type weighted struct {
	t         *testing.T
	semaphore *lockhouse.Semaphore

	mu   sync.Mutex
	held []*lockhouse.Permit
}

func newWeighted(t *testing.T, n int) *weighted {
	return &weighted{t: t, semaphore: client(t).Semaphore("weighted").OrCreate(n)}
}

func (w *weighted) Acquire(ctx context.Context, n int) error {
	_, permit, err := w.semaphore.Acquire(ctx, n)
	w.keep(permit, err)
	return err
}

func (w *weighted) TryAcquire(n int) bool {
	_, permit, err := w.semaphore.TryAcquire(ctx, n)
	w.keep(permit, err)
	if err != nil && !errors.Is(err, lockhouse.ErrExhausted) {
		w.t.Error(err)
	}
	return err == nil
}

func (w *weighted) keep(permit *lockhouse.Permit, err error) {
	if err == nil {
		w.mu.Lock()
		w.held = append(w.held, permit)
		w.mu.Unlock()
	}
}

func (w *weighted) Release(n int) {
	for n > 0 {
		permit := w.take(n)
		if permit == nil {
			w.t.Error("nothing is held that may be released")
			return
		}
		n -= permit.Request.Permits[0].Count
		if err := permit.Release(ctx); err != nil {
			w.t.Error(err)
		}
	}
}

// take prefers a permit of just as many, as those of fewer may be another goroutine's.
func (w *weighted) take(most int) *lockhouse.Permit {
	w.mu.Lock()
	defer w.mu.Unlock()
	for count := most; count > 0; count-- {
		for i, permit := range w.held {
			if permit.Request.Permits[0].Count == count {
				w.held = append(w.held[:i], w.held[i+1:]...)
				return permit
			}
		}
	}
	return nil
}

func TestWeighted(t *testing.T) {
	t.Parallel()
	const n = 4
	sem := newWeighted(t, n)
	var all sync.WaitGroup
	for i := 1; i <= n; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 40 / n {
				if err := sem.Acquire(ctx, i); err != nil {
					t.Error(err)
				}
				time.Sleep(rand.N(time.Millisecond))
				sem.Release(i)
			}
		}()
	}
	all.Wait()
}

func TestWeightedTryAcquire(t *testing.T) {
	t.Parallel()
	sem := newWeighted(t, 2)
	testTries(t, sem, sem.TryAcquire)
}

func TestWeightedAcquire(t *testing.T) {
	t.Parallel()
	sem := newWeighted(t, 2)
	testTries(t, sem, func(n int) bool {
		// That package's 10 ms are too few for an answer of a server that is busy with other tests.
		ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		return sem.Acquire(ctx, n) == nil
	})
}

func testTries(t *testing.T, sem *weighted, try func(n int) bool) {
	var tries []bool
	_ = sem.Acquire(ctx, 1)
	tries = append(tries, try(1), try(1))

	sem.Release(2)

	tries = append(tries, try(1))
	_ = sem.Acquire(ctx, 1)
	tries = append(tries, try(1))

	for i, want := range []bool{true, false, true, false} {
		if tries[i] != want {
			t.Errorf("tries[%d]: got %t, want %t", i, tries[i], want)
		}
	}
}

func TestWeightedDoesntBlockIfTooBig(t *testing.T) {
	t.Parallel()
	const n = 2
	sem := newWeighted(t, n)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _ = sem.Acquire(ctx, n+1) }()

	var all sync.WaitGroup
	for range n * 3 {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := sem.Acquire(ctx, 1); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Millisecond)
			sem.Release(1)
		}()
	}
	all.Wait()
}

// TestLargeAcquireDoesntStarve times out if a large call to Acquire starves.
func TestLargeAcquireDoesntStarve(t *testing.T) {
	t.Parallel()
	n := runtime.GOMAXPROCS(0)
	sem := newWeighted(t, n)
	var isOver atomic.Bool
	var all sync.WaitGroup
	for range n {
		if err := sem.Acquire(ctx, 1); err != nil {
			t.Fatal(err)
		}
		all.Add(1)
		go func() {
			defer all.Done()
			for !isOver.Load() {
				time.Sleep(time.Millisecond)
				sem.Release(1)
				_ = sem.Acquire(ctx, 1)
			}
			sem.Release(1)
		}()
	}
	if err := sem.Acquire(ctx, n); err != nil {
		t.Error(err)
	}
	isOver.Store(true)
	sem.Release(n)
	all.Wait()
}

func TestAllocCancelDoesntStarve(t *testing.T) {
	t.Parallel()
	sem := newWeighted(t, 10)
	// Block off a portion of the semaphore so that Acquire(_, 10) can eventually succeed.
	if err := sem.Acquire(ctx, 1); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _ = sem.Acquire(cancelled, 10) }()
	// Wait until the Acquire(_, 10) call blocks.
	for sem.TryAcquire(1) {
		sem.Release(1)
	}
	// Unblock it, and at the same time ask for what it stands before.
	go cancel()
	if err := sem.Acquire(ctx, 1); err != nil {
		t.Fatalf("Acquire(_, 1) failed unexpectedly: %v", err)
	}
	sem.Release(1)
}

func TestWeightedAcquireCanceled(t *testing.T) {
	t.Parallel()
	sem := newWeighted(t, 2)
	cancelled, cancel := context.WithCancel(ctx)
	_ = sem.Acquire(ctx, 1)
	released := make(chan struct{})
	go func() {
		// Synchronize with the Acquire(2) below.
		for sem.TryAcquire(1) {
			sem.Release(1)
		}
		// Now cancel, and then release the permit.
		cancel()
		sem.Release(1)
		close(released)
	}()
	if err := sem.Acquire(cancelled, 2); err != context.Canceled {
		t.Errorf("Acquire with a cancelled context: want context.Canceled, got %v", err)
	}
	<-released
	// The server sees within a moment that the caller has hung up.
	eventually(t, "all permits are back", func() bool { return sem.TryAcquire(2) })
	sem.Release(2)
	// It acquires nothing with a context that is done, even if it would not need to wait.
	if err := sem.Acquire(cancelled, 1); err != context.Canceled {
		t.Errorf("Acquire with a cancelled context: want context.Canceled, got %v", err)
	}
}

func TestAPermitIsReleasedOnce(t *testing.T) {
	t.Parallel()
	sem := newWeighted(t, 1)
	_, permit, err := sem.semaphore.Acquire(ctx, 1)
	if err != nil || permit.Release(ctx) != nil {
		t.Fatal(err)
	}
	// Where that package panics.
	if err := permit.Release(ctx); !errors.Is(err, lockhouse.ErrReleased) {
		t.Error(err)
	}
}
