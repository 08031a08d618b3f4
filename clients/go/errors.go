package lockhouse

import (
	"errors"
	"fmt"
)

// Error is the error of a call that the server refused or did not answer. Compare it by its code:
// errors.Is(err, lockhouse.ErrExhausted).
type Error struct {
	// Code is the server's stable word to branch on.
	Code string `json:"code"`
	// Detail says what happened, and what to do.
	Detail string `json:"detail"`
	// Semaphores are the names of the semaphores that the error is about.
	Semaphores []string `json:"semaphores"`
	// EndReason is why the request ended, with ErrRequestEnded.
	EndReason string `json:"end_reason"`
	// MaybeApplied says whether the call, or a try of it whose answer was lost, may have been done.
	MaybeApplied bool `json:"maybe_applied"`

	cause error
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return "lockhouse: " + e.Code
	}
	return "lockhouse: " + e.Code + ": " + e.Detail
}

// Is reports whether target is an Error with the same code.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code
}

// Unwrap returns the error of the connection, if there is one.
func (e *Error) Unwrap() error { return e.cause }

// The errors of the server, for errors.Is. See docs/reference/errors.md for each code. A call that gets no answer in
// time also fails with ErrStoreUnavailable.
var (
	ErrCapacityChanged     = &Error{Code: "capacity_changed"}
	ErrExceedsCapacity     = &Error{Code: "exceeds_capacity"}
	ErrExhausted           = &Error{Code: "exhausted"}
	ErrForbidden           = &Error{Code: "forbidden"}
	ErrIdempotencyConflict = &Error{Code: "idempotency_conflict"}
	ErrInternal            = &Error{Code: "internal"}
	ErrInvalidRequest      = &Error{Code: "invalid_request"}
	ErrOverloaded          = &Error{Code: "overloaded"}
	ErrRequestEnded        = &Error{Code: "request_ended"}
	ErrSemaphoreInUse      = &Error{Code: "semaphore_in_use"}
	ErrSessionEnded        = &Error{Code: "session_ended"}
	ErrStoreUnavailable    = &Error{Code: "store_unavailable"}
	ErrUnauthenticated     = &Error{Code: "unauthenticated"}
	ErrUnknownRequest      = &Error{Code: "unknown_request"}
	ErrUnknownSemaphore    = &Error{Code: "unknown_semaphore"}
)

// ErrReleased is the error of a second Release of a permit.
var ErrReleased = errors.New("lockhouse: the permit was released before")

// LostError says that a hold was lost before it was released: somebody else may hold the permits now.
type LostError struct {
	// The kind of thing that was lost: a request or a session.
	What string
	// Reason is not_renewed (no renewal got through in time), unknown (the server does not know it), or
	// the server's end reason: released, expired, owner_dead, stale, forced.
	Reason string
}

func (e *LostError) Error() string {
	return fmt.Sprintf("lockhouse: the hold of %s was lost: %s", e.What, e.Reason)
}

func hasCode(err error, sentinel *Error) bool { return errors.Is(err, sentinel) }

// isUnanswered is whether the server did not decide: the same call may be done yet, or do better later.
func isUnanswered(err error) bool {
	var known *Error
	if !errors.As(err, &known) {
		return err != nil
	}
	return known.Code == ErrStoreUnavailable.Code || known.Code == ErrOverloaded.Code || known.Code == ErrInternal.Code
}

func maybeApplied(err error) bool {
	var known *Error
	return !errors.As(err, &known) || known.MaybeApplied
}
