// Package lockhouse is a distributed counting semaphore: N workers, on any number of machines, do something
// at the same time, and no more than N. It is the client of a Lockhouse server.
//
//	lh, err := lockhouse.New("http://127.0.0.1:7117")
//	if err != nil {
//		return err
//	}
//	defer lh.Close(ctx)
//	held, permit, err := lh.Semaphore("gpu").Acquire(ctx, 1)
//	if err != nil {
//		return err
//	}
//	defer permit.Release(ctx)
//	return work(held)
//
// A hold is renewed by a goroutine about every third of its time to live. It is lost when nine tenths of the time
// to live have passed since the last successful renewal was sent. The context that Acquire returns is cancelled
// then. The server can grant the permits to another only after the whole time to live.
//
// A call is retried until the timeout of the client, beyond the wait that it asks for, or until its context is
// done. Goroutines may share clients, semaphores, permits and sessions.
package lockhouse

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// Version of this package.
const Version = "0.1.0"

// DefaultURL is where a server listens unless told otherwise.
const DefaultURL = "http://127.0.0.1:7117"

// Client is the client of one server. It is safe for many goroutines.
type Client struct {
	url     string
	token   string
	timeout time.Duration
	http    *http.Client

	mu         sync.Mutex
	open       map[closer]struct{}
	background sync.WaitGroup
}

// closer is a permit or a session that is open.
type closer interface{ close(context.Context) error }

// Option is a setting of New.
type Option func(*settings) error

type settings struct {
	token   string
	caFile  string
	timeout time.Duration
}

// WithToken sends the token with every call. Without it, New takes the environment's LOCKHOUSE_TOKEN.
func WithToken(token string) Option {
	return func(s *settings) error {
		s.token = token
		return nil
	}
}

// WithCAFile trusts the authorities of a PEM file instead of the machine's. Without it, New takes the environment's
// LOCKHOUSE_CA_FILE.
func WithCAFile(path string) Option {
	return func(s *settings) error {
		s.caFile = path
		return nil
	}
}

// authorities are those of a PEM file; nil, which stands for the machine's, if there is none.
func authorities(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("lockhouse: %s has no certificate in PEM", path)
	}
	return roots, nil
}

// WithTimeout bounds each call with all its retries, beyond the wait that it asks for; 10 s unless set. A call that
// reaches it returns ErrStoreUnavailable.
func WithTimeout(timeout time.Duration) Option {
	return func(s *settings) error {
		if timeout <= 0 {
			return errors.New("lockhouse: the timeout must be more than 0")
		}
		s.timeout = timeout
		return nil
	}
}

// New returns the client of the server at address, which may be empty: then LOCKHOUSE_URL says where it is,
// or DefaultURL. Nothing is connected to yet.
func New(address string, options ...Option) (*Client, error) {
	set := settings{
		token:   strings.TrimSpace(os.Getenv("LOCKHOUSE_TOKEN")),
		caFile:  os.Getenv("LOCKHOUSE_CA_FILE"),
		timeout: 10 * time.Second,
	}
	for _, option := range options {
		if err := option(&set); err != nil {
			return nil, err
		}
	}
	if strings.ContainsFunc(set.token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("lockhouse: the token has characters that no token has, such as a space")
	}
	roots, err := authorities(set.caFile)
	if err != nil {
		return nil, err
	}
	for _, other := range []string{os.Getenv("LOCKHOUSE_URL"), DefaultURL} {
		if address == "" {
			address = other
		}
	}
	parsed, err := url.Parse(address)
	switch {
	case err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Hostname() == "":
		return nil, errors.New("lockhouse: the URL of a server is http://HOST:PORT or https://HOST:PORT")
	case parsed.User != nil:
		return nil, errors.New("lockhouse: the URL must not hold a user or a password; use WithToken")
	case parsed.RawQuery != "" || parsed.Fragment != "":
		return nil, errors.New("lockhouse: the URL must not have a query or a fragment")
	}
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
		TLSHandshakeTimeout: 3 * time.Second,
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		// Shorter than servers and proxies keep an idle connection.
		IdleConnTimeout:     15 * time.Second,
		MaxIdleConnsPerHost: 64,
		// By HTTP/2 all calls would share one connection, and hang with it.
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	never := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{
		url:     strings.TrimRight(address, "/"),
		token:   set.token,
		timeout: set.timeout,
		http:    &http.Client{Transport: transport, CheckRedirect: never},
		open:    map[closer]struct{}{},
	}, nil
}

// Close releases all permits that are held, says goodbye for all sessions, and waits for releases that are
// under way. Call it before the program ends; otherwise the time to live ends what is held. If ctx is done, it
// releases all the same, but does not wait for releases that were under way before.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	open := c.open
	c.open = map[closer]struct{}{}
	c.mu.Unlock()
	failed := make(chan error, len(open))
	for it := range open {
		go func() { failed <- it.close(ctx) }()
	}
	var all []error
	for range open {
		all = append(all, <-failed)
	}
	done := make(chan struct{})
	go func() {
		c.background.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		all = append(all, ctx.Err())
	}
	c.http.CloseIdleConnections()
	return errors.Join(all...)
}

// opened remembers what Close closes; closed forgets it.
func (c *Client) opened(it closer) {
	c.mu.Lock()
	c.open[it] = struct{}{}
	c.mu.Unlock()
}

func (c *Client) closed(it closer) {
	c.mu.Lock()
	delete(c.open, it)
	c.mu.Unlock()
}

// Ready reports whether the server answers within the timeout, and its store does.
func (c *Client) Ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	request, err := c.request(ctx, call{method: "GET", path: "/readyz"}, newID())
	if err != nil {
		return false
	}
	response, err := c.http.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// do asks, and reads the answer into what to points to, unless it is nil.
func (c *Client) do(ctx context.Context, call call, to any) (asked, error) {
	answer, err := c.ask(ctx, time.Now().Add(c.timeout), call)
	if err != nil || to == nil {
		return answer, err
	}
	return answer, c.read(answer, to)
}

func (c *Client) read(answer asked, to any) error {
	if err := json.Unmarshal(answer.body, to); err != nil {
		return &Error{Code: "internal", Detail: fmt.Sprintf("%s answered what can't be read: %v", c.url, err)}
	}
	return nil
}

// path is /v1, what it is of, and the name as one segment.
func path(of, name string, below ...string) (string, error) {
	if name == "" || name == "." || name == ".." {
		detail := fmt.Sprintf("a URL can't hold the name %q; pick another", name)
		return "", &Error{Code: "invalid_request", Detail: detail}
	}
	segments := append([]string{"/v1", of, url.PathEscape(name)}, below...)
	return strings.Join(segments, "/"), nil
}

// milliseconds is a duration as the API has it. Less than one is not a duration that the server could take.
func milliseconds(what string, duration time.Duration) (int64, error) {
	if duration < time.Millisecond {
		detail := fmt.Sprintf("%s of %v is too short; the shortest is 1ms", what, duration)
		return 0, &Error{Code: "invalid_request", Detail: detail}
	}
	return duration.Milliseconds(), nil
}

// fixed is a body that is the same for each try.
func fixed(body any) func() any { return func() any { return body } }

func isCertificate(err error) bool {
	var unverified *tls.CertificateVerificationError
	return errors.As(err, &unverified)
}

func withoutURL(err error) error {
	var known *url.Error
	if errors.As(err, &known) {
		return known.Err
	}
	return err
}
