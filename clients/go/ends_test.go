package lockhouse_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockhouse/lockhouse/clients/go"
)

func TestAReleasedPermitIsNeverLost(t *testing.T) {
	lh := client(t)
	session, err := lh.Session(ctx, "worker", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	own, permit, err := lh.Semaphore("s").OrCreate(2).WithTTL(time.Second).Acquire(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	kept, other, err := session.Acquire(ctx, lockhouse.Ask{Permits: map[string]int{"s": 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range []*lockhouse.Permit{permit, other} {
		if err := it.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := session.Goodbye(ctx); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1200 * time.Millisecond)
	for _, it := range []*lockhouse.Permit{permit, other} {
		if err := it.Err(); err != lockhouse.ErrReleased {
			t.Error(err)
		}
	}
	for _, it := range []context.Context{own, kept} {
		if it.Err() != context.Canceled || context.Cause(it) != context.Canceled {
			t.Error(it.Err(), context.Cause(it))
		}
	}
}

func TestAPermitThatWasLostStaysLostAfterItsRelease(t *testing.T) {
	lh := client(t)
	held, permit, err := lh.Semaphore("s").OrCreate(1).WithTTL(600*time.Millisecond).Acquire(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lh.Force(ctx, permit.Request.ExternalID, "operator"); err != nil {
		t.Fatal(err)
	}
	<-held.Done()
	_ = permit.Release(ctx)
	var lost *lockhouse.LostError
	if err := permit.Err(); !errors.As(err, &lost) || lost.Reason != "forced" {
		t.Fatal(err)
	}
}

func TestAFailedAcquireReturnsItsOwnContext(t *testing.T) {
	lh := client(t)
	type key struct{}
	mine := context.WithValue(ctx, key{}, "mine")
	done, cancel := context.WithCancel(mine)
	cancel()
	session, err := lh.Session(ctx, "worker", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	ask := lockhouse.Ask{Permits: map[string]int{"missing": 1}}
	impossible := lh.Semaphore("s").OrCreate(-1)
	for name, acquire := range map[string]func(context.Context) (context.Context, *lockhouse.Permit, error){
		"Client.Acquire":    func(ctx context.Context) (context.Context, *lockhouse.Permit, error) { return lh.Acquire(ctx, ask) },
		"Client.TryAcquire": func(ctx context.Context) (context.Context, *lockhouse.Permit, error) { return lh.TryAcquire(ctx, ask) },
		"Session.Acquire": func(ctx context.Context) (context.Context, *lockhouse.Permit, error) {
			return session.Acquire(ctx, ask)
		},
		"Semaphore.TryAcquire": func(ctx context.Context) (context.Context, *lockhouse.Permit, error) {
			return impossible.TryAcquire(ctx, 1)
		},
	} {
		for _, given := range []context.Context{mine, done} {
			got, permit, err := acquire(given)
			if err == nil || permit != nil || got != given {
				t.Errorf("%s: %v, %v, %v", name, got, permit, err)
			}
		}
	}
}

func TestACancelledWaitSaysSoWhateverTheCauseIs(t *testing.T) {
	lh := client(t)
	semaphore := lh.Semaphore("s").OrCreate(1)
	if _, _, err := semaphore.Acquire(ctx, 1); err != nil {
		t.Fatal(err)
	}
	for _, cause := range []error{errors.New("shutting down"), &lockhouse.Error{Code: "session_ended"}, nil} {
		cancelled, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(100*time.Millisecond, func() { cancel(cause) })
		short, stop := context.WithTimeoutCause(ctx, 100*time.Millisecond, cause)
		for _, it := range []struct {
			of   context.Context
			want error
		}{{cancelled, context.Canceled}, {short, context.DeadlineExceeded}} {
			for _, when := range []string{"while it waits", "before"} {
				_, _, err := semaphore.Acquire(it.of, 1)
				if !errors.Is(err, it.want) || cause != nil && !errors.Is(err, cause) {
					t.Errorf("%v, %s: %v", cause, when, err)
				}
			}
			if _, err := lh.Status(it.of, "s"); !errors.Is(err, it.want) {
				t.Error(err)
			}
		}
		stop()
	}
}

// A cause that is an error of this package must not be taken for the server's refusal.
func TestAGrantIsGivenBackWhateverTheCauseIs(t *testing.T) {
	lh := client(t)
	semaphore := lh.Semaphore("s").OrCreate(1)
	_, permit, err := semaphore.Acquire(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		cancelled, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(50*time.Millisecond, func() { cancel(&lockhouse.Error{Code: "exhausted"}) })
		time.AfterFunc(50*time.Millisecond, func() { _ = permit.Release(ctx) })
		_, next, err := semaphore.Acquire(cancelled, 1)
		if err != nil {
			eventually(t, "nothing is held", func() bool { return inUse(t, lh, "s") == 0 })
			if _, next, err = semaphore.Acquire(ctx, 1); err != nil {
				t.Fatal(err)
			}
		}
		permit = next
	}
}
