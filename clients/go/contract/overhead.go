package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/lockhouse/lockhouse/clients/go"
)

// overhead is how long an acquire and its release take by the client, and as two bare calls on one connection.
func overhead(ctx context.Context, lh *lockhouse.Client, c command) (any, error) {
	permits := []map[string]any{{"semaphore": c.Semaphore, "count": 1}}
	body, err := json.Marshal(map[string]any{"permits": permits, "ttl_ms": 30000, "wait_ms": 0})
	if err != nil {
		return nil, err
	}
	ids := 0
	bare := func() error {
		ids++
		url := fmt.Sprintf("%s/v1/requests/bare-%d", c.URL, ids)
		if err := bareCall("PUT", url, bytes.NewReader(body)); err != nil {
			return err
		}
		return bareCall("DELETE", url, nil)
	}
	byClient := func() error {
		_, permit, err := lh.Semaphore(c.Semaphore).TryAcquire(ctx, 1)
		if err != nil {
			return err
		}
		return permit.Release(ctx)
	}
	took := map[string][]float64{}
	for range c.Times {
		for name, what := range map[string]func() error{"bare_us": bare, "client_us": byClient} {
			began := time.Now()
			if err := what(); err != nil {
				return nil, err
			}
			took[name] = append(took[name], float64(time.Since(began).Nanoseconds())/1000)
		}
	}
	return took, nil
}

func bareCall(method, url string, body io.Reader) error {
	request, err := http.NewRequest(method, url, body)
	if err != nil {
		return err
	}
	request.Header.Set("content-type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var told map[string]any
	return json.NewDecoder(response.Body).Decode(&told)
}
