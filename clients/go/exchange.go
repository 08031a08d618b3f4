package lockhouse

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	callID       = "lockhouse-call-id"
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
)

// call is one call of the API. body is called for each try.
type call struct {
	method string
	path   string
	body   func() any
	header map[string]string
}

// asked is an answer that says yes. before: an earlier try may have been done.
type asked struct {
	status int
	body   []byte
	before bool
}

// failure is a try that failed.
type failure struct {
	err        *Error
	mayRetry   bool
	retryAfter time.Duration
}

// ask asks until there is an answer, ctx is done, or the deadline passes. Every call of the API is safe
// to repeat, so a failed connection, a lost answer and a server that says "try again" are all met by
// asking again. Only the deadline bounds the tries.
func (c *Client) ask(ctx context.Context, deadline time.Time, call call) (asked, error) {
	before := false
	for retry := 0; ; retry++ {
		answer, failed := c.once(ctx, deadline, call)
		if failed == nil {
			answer.before = before
			return answer, nil
		}
		if ctx.Err() != nil {
			return asked{}, whyDone(ctx)
		}
		before = before || failed.err.MaybeApplied
		pause := max(pauseBefore(retry), failed.retryAfter)
		if !failed.mayRetry || time.Now().Add(pause).After(deadline) {
			failed.err.MaybeApplied = before
			return asked{}, failed.err
		}
		select {
		case <-ctx.Done():
			return asked{}, whyDone(ctx)
		case <-time.After(pause):
		}
	}
}

// ownReason is the cause with which this package itself cancels a call.
type ownReason struct{ error }

// whyDone is why a context is done: Canceled or DeadlineExceeded, and the cause that its caller gave.
func whyDone(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if own, ok := cause.(ownReason); ok {
		return own.error
	}
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// pauseBefore is one to two times 50 ms, then twice that, up to two seconds.
func pauseBefore(retry int) time.Duration {
	pause := min(firstPause<<min(retry, 10), longestPause)
	return time.Duration(float64(pause) * (1 + mathrand.Float64()))
}

// once is one try.
func (c *Client) once(ctx context.Context, deadline time.Time, call call) (asked, *failure) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	id := newID()
	request, err := c.request(ctx, call, id)
	if err != nil {
		return asked{}, &failure{err: &Error{Code: "invalid_request", Detail: err.Error()}}
	}
	response, err := c.http.Do(request)
	if err != nil {
		return asked{}, c.broken(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return asked{}, c.broken(err)
	}
	if told := response.Header.Get(callID); told != "" && told != id {
		// A proxy that mixes up answers: no connection that there is can be trusted.
		c.http.CloseIdleConnections()
		return asked{}, c.broken(errors.New("the answer is to another call"))
	}
	if response.StatusCode < 300 {
		if len(body) > 0 && !json.Valid(body) {
			return asked{}, &failure{err: c.foreign(response)}
		}
		return asked{status: response.StatusCode, body: body}, nil
	}
	return asked{}, c.refused(response, body)
}

func (c *Client) request(ctx context.Context, call call, id string) (*http.Request, error) {
	var body io.Reader
	if call.body != nil {
		encoded, err := json.Marshal(call.body())
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, call.method, c.url+call.path, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("content-type", "application/json")
	}
	request.Header.Set("accept", "application/json")
	request.Header.Set("user-agent", "lockhouse-go/"+Version)
	request.Header.Set(callID, id)
	if c.token != "" {
		request.Header.Set("authorization", "Bearer "+c.token)
	}
	for name, value := range call.header {
		request.Header.Set(name, value)
	}
	return request, nil
}

// broken is a try without an answer.
func (c *Client) broken(err error) *failure {
	var dial *net.OpError
	wasSent := !errors.As(err, &dial) || dial.Op != "dial"
	mayRetry := !isCertificate(err)
	if !mayRetry {
		wasSent = false
	}
	return &failure{
		err: &Error{
			Code:         "store_unavailable",
			Detail:       fmt.Sprintf("%s did not answer: %v", c.url, withoutURL(err)),
			MaybeApplied: wasSent,
			cause:        err,
		},
		mayRetry: mayRetry,
	}
}

// refused is a try whose answer says no.
func (c *Client) refused(response *http.Response, body []byte) *failure {
	problem := &Error{}
	if json.Unmarshal(body, problem) != nil {
		problem = &Error{}
	}
	status := response.StatusCode
	isOfTheAPI := problem.Code != "" && status != http.StatusMethodNotAllowed &&
		!(status == http.StatusNotFound && problem.Code == "invalid_request")
	plain := &Error{Code: "store_unavailable", Detail: fmt.Sprintf("%s answered %s", c.url, response.Status)}
	switch {
	case status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests:
		seconds, _ := strconv.Atoi(response.Header.Get("retry-after"))
		after := time.Duration(max(seconds, 0)) * time.Second
		if !isOfTheAPI {
			problem = plain
		}
		return &failure{err: problem, mayRetry: true, retryAfter: after}
	case isOfTheAPI:
		return &failure{err: problem}
	// Not the words of a server: those of a proxy before it, or of something else.
	case status == http.StatusBadGateway || status == http.StatusGatewayTimeout:
		plain.MaybeApplied = true
		return &failure{err: plain, mayRetry: true}
	case status == http.StatusUnauthorized:
		plain.Code = "unauthenticated"
		return &failure{err: plain}
	case status == http.StatusForbidden:
		plain.Code = "forbidden"
		return &failure{err: plain}
	}
	return &failure{err: c.foreign(response)}
}

func (c *Client) foreign(response *http.Response) *Error {
	to := response.Header.Get("location")
	if to != "" {
		to = " to " + to
	}
	detail := fmt.Sprintf("%s answered %s%s; is it the URL of a lockhouse server?", c.url, response.Status, to)
	return &Error{Code: "invalid_request", Detail: detail}
}

func newID() string {
	var bytes [16]byte
	_, _ = rand.Read(bytes[:]) // It never fails; see its documentation.
	return hex.EncodeToString(bytes[:])
}
