package lockhouse_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockhouse/lockhouse/clients/go"
)

// The durations that are no time to live. NoTTL, a nanosecond below zero, is the one that says so.
var noTTLs = []time.Duration{time.Nanosecond, 999 * time.Microsecond, -2, -time.Millisecond, -time.Hour}

func TestATTLUnderAMillisecondIsRefused(t *testing.T) {
	lh := client(t)
	semaphore := lh.Semaphore("s").OrCreate(100)
	for _, ttl := range noTTLs {
		ask := lockhouse.Ask{Permits: map[string]int{"s": 1}, TTL: ttl}
		if _, _, err := lh.Acquire(ctx, ask); !errors.Is(err, lockhouse.ErrInvalidRequest) {
			t.Errorf("Acquire with %v: %v", ttl, err)
		}
		if _, _, err := semaphore.WithTTL(ttl).TryAcquire(ctx, 1); !errors.Is(err, lockhouse.ErrInvalidRequest) {
			t.Errorf("WithTTL(%v): %v", ttl, err)
		}
		if _, err := lh.Renew(ctx, "x", ttl); !errors.Is(err, lockhouse.ErrInvalidRequest) {
			t.Errorf("Renew to %v: %v", ttl, err)
		}
	}
	for _, ttl := range append(noTTLs, 0, lockhouse.NoTTL) {
		if _, err := lh.Session(ctx, "worker", ttl); !errors.Is(err, lockhouse.ErrInvalidRequest) {
			t.Errorf("Session with %v: %v", ttl, err)
		}
	}
	for range lh.Requests(ctx, "", "") {
		t.Fatal("something is held")
	}
}

func TestAnIdleTimeUnderAMillisecondIsRefused(t *testing.T) {
	lh := client(t)
	for _, idle := range noTTLs {
		if _, err := lh.SetTemplate(ctx, "customer/*", 2, idle); !errors.Is(err, lockhouse.ErrInvalidRequest) {
			t.Errorf("SetTemplate with %v: %v", idle, err)
		}
	}
	if _, err := lh.SetTemplate(ctx, "customer/*", 2, 0); err != nil {
		t.Error(err)
	}
}

func TestNoTTLIsNotRenewed(t *testing.T) {
	lh := client(t)
	_, permit, err := lh.Semaphore("s").OrCreate(1).WithTTL(lockhouse.NoTTL).Acquire(ctx, 1)
	if err != nil || permit.Request.TTLMs != nil {
		t.Fatal(err, permit)
	}
	if err := permit.Release(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestAWaitThatIsOverDoesNotWait(t *testing.T) {
	lh := client(t)
	_, permit, err := lh.Semaphore("s").OrCreate(1).Acquire(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	bounded, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, wait := range []time.Duration{-1, time.Until(time.Now().Add(-time.Hour))} {
		ask := lockhouse.Ask{Permits: map[string]int{"s": 1}, Wait: wait}
		if _, _, err := lh.Acquire(bounded, ask); !errors.Is(err, lockhouse.ErrExhausted) {
			t.Errorf("a wait of %v: %v", wait, err)
		}
	}
	if err := permit.Release(ctx); err != nil {
		t.Fatal(err)
	}
	past := lockhouse.Ask{Permits: map[string]int{"s": 1}, Wait: -1}
	if _, _, err := lh.Acquire(ctx, past); err != nil {
		t.Error("there is room: ", err)
	}
}
