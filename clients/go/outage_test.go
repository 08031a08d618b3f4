package lockhouse_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockhouse/lockhouse/clients/go"
)

// link is a proxy before a real server, which may cut calls off or change answers.
type link struct {
	url    string
	isDown atomic.Bool
	change func(*http.Response)
}

func newLink(t *testing.T) *link {
	t.Helper()
	real, err := url.Parse(server(t))
	if err != nil {
		t.Fatal(err)
	}
	it := &link{}
	proxy := httputil.NewSingleHostReverseProxy(real)
	proxy.ModifyResponse = func(answer *http.Response) error {
		if it.change != nil {
			it.change(answer)
		}
		return nil
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, call *http.Request) {
		if it.isDown.Load() {
			panic(http.ErrAbortHandler)
		}
		call.Host = real.Host
		proxy.ServeHTTP(w, call)
	}))
	t.Cleanup(front.Close)
	it.url = front.URL
	return it
}

func TestDoSaysThatTheHoldWasLostThoughTheServerIsDown(t *testing.T) {
	link := newLink(t)
	lh, err := lockhouse.New(link.url, lockhouse.WithTimeout(300*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lh.DefineIfMissing(ctx, "s", 1); err != nil {
		t.Fatal(err)
	}
	ask := lockhouse.Ask{Permits: map[string]int{"s": 1}, TTL: 500 * time.Millisecond}
	err = lh.Do(ctx, ask, func(held context.Context, _ *lockhouse.Permit) error {
		link.isDown.Store(true)
		<-held.Done()
		return nil
	})
	var lost *lockhouse.LostError
	if !errors.As(err, &lost) {
		t.Fatal(err)
	}
}

// The answer to the ask is that of a repeat, so the hold is renewed before it is handed out.
func TestAGrantThatCannotBeRenewedIsGivenBack(t *testing.T) {
	link := newLink(t)
	link.change = func(answer *http.Response) {
		switch {
		case answer.Request.Method == "PUT" && answer.StatusCode == http.StatusCreated:
			answer.StatusCode = http.StatusOK
		case strings.HasSuffix(answer.Request.URL.Path, "/renew"):
			answer.StatusCode = http.StatusForbidden
			body := `{"code":"forbidden","status":403,"detail":"no"}`
			answer.Body = io.NopCloser(strings.NewReader(body))
			answer.ContentLength = int64(len(body))
			answer.Header.Set("content-length", strconv.Itoa(len(body)))
		}
	}
	lh, err := lockhouse.New(link.url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lh.DefineIfMissing(ctx, "s", 1); err != nil {
		t.Fatal(err)
	}
	ask := lockhouse.Ask{Permits: map[string]int{"s": 1}, TTL: time.Minute}
	if _, _, err := lh.TryAcquire(ctx, ask); err == nil {
		t.Fatal("it was renewed")
	}
	eventually(t, "nothing is held", func() bool { return inUse(t, lh, "s") == 0 })
}

func TestReadyIsAnsweredWithinTheTimeout(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	lh, err := lockhouse.New("http://"+silent.Addr().String(), lockhouse.WithTimeout(300*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	within, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if lh.Ready(within) || within.Err() != nil {
		t.Fatal(within.Err())
	}
}
