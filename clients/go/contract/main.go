// Command contract does what the contract's harness says, by this client. See ../../contract/README.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/lockhouse/lockhouse/clients/go"
)

type command struct {
	ID               int             `json:"id"`
	Op               string          `json:"op"`
	As               string          `json:"as"`
	URL              string          `json:"url"`
	Token            string          `json:"token"`
	CAFile           string          `json:"ca_file"`
	TimeoutMs        int64           `json:"timeout_ms"`
	Permits          map[string]int  `json:"permits"`
	Permit           string          `json:"permit"`
	ExternalID       string          `json:"external_id"`
	Owner            string          `json:"owner"`
	TTLMs            json.RawMessage `json:"ttl_ms"`
	WaitMs           *int64          `json:"wait_ms"`
	Priority         int             `json:"priority"`
	Session          string          `json:"session"`
	Semaphore        string          `json:"semaphore"`
	Capacity         *int            `json:"capacity"`
	Slots            bool            `json:"slots"`
	Note             string          `json:"note"`
	ExpectedCapacity *int            `json:"expected_capacity"`
	Prefix           string          `json:"prefix"`
	By               string          `json:"by"`
	Pattern          string          `json:"pattern"`
	IdleMs           int64           `json:"idle_ms"`
	Target           int             `json:"target"`
	Ms               int64           `json:"ms"`
	Times            int             `json:"times"`
}

// held is a permit or a session.
type held interface{ Err() error }

type runner struct {
	lh      *lockhouse.Client
	mu      sync.Mutex
	held    map[string]held
	leave   map[string]chan struct{}
	cancels map[int]context.CancelFunc
}

type answer map[string]any

func main() {
	r := &runner{held: map[string]held{}, leave: map[string]chan struct{}{}, cancels: map[int]context.CancelFunc{}}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			panic(err)
		}
		if c.Op == "exit" {
			break
		}
		if c.Op == "busy" {
			for end := time.Now().Add(time.Duration(c.Ms) * time.Millisecond); time.Now().Before(end); {
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		r.mu.Lock()
		r.cancels[c.ID] = cancel
		r.mu.Unlock()
		go r.answer(ctx, c)
	}
	_ = r.lh.Close(context.Background())
}

func (r *runner) answer(ctx context.Context, c command) {
	told, err := r.do(ctx, c)
	var known *lockhouse.Error
	var lost *lockhouse.LostError
	code := ""
	switch {
	case err == nil:
		if told == nil {
			told = answer{}
		}
		say(answer{"id": c.ID, "ok": told})
		return
	case errors.Is(err, context.Canceled):
		code = "cancelled"
	case errors.As(err, &lost):
		code = "lost"
	case errors.As(err, &known):
		code = known.Code
	}
	say(answer{"id": c.ID, "error": answer{"code": code, "detail": err.Error()}})
}

func (r *runner) do(ctx context.Context, c command) (any, error) {
	switch c.Op {
	case "connect":
		return nil, r.connect(c)
	case "acquire":
		return r.acquire(ctx, c)
	case "block":
		return nil, r.block(ctx, c)
	case "leave":
		r.mu.Lock()
		defer r.mu.Unlock()
		close(r.leave[c.Permit])
		return nil, nil
	case "release":
		err := r.of(c.Permit).(*lockhouse.Permit).Release(ctx)
		var lost *lockhouse.LostError
		if errors.Is(err, lockhouse.ErrReleased) || errors.As(err, &lost) {
			return answer{"released": false}, nil
		}
		return answer{"released": true}, err
	case "is_lost":
		var lost *lockhouse.LostError
		if errors.As(r.of(c.Permit).Err(), &lost) {
			return answer{"lost": true, "reason": lost.Reason}, nil
		}
		return answer{"lost": false}, nil
	case "session":
		session, err := r.lh.Session(ctx, c.Owner, c.ttl())
		if err != nil {
			return nil, err
		}
		r.holds(c.As, session)
		go func() {
			<-session.Lost()
			r.lost(c.As)
		}()
		return nil, nil
	case "goodbye":
		released, err := r.of(c.Session).(*lockhouse.Session).Goodbye(ctx)
		return answer{"released": released}, err
	case "cancel":
		r.mu.Lock()
		defer r.mu.Unlock()
		r.cancels[c.Target]()
		return nil, nil
	case "busy":
		return nil, nil
	case "overhead":
		return overhead(ctx, r.lh, c)
	}
	return r.call(ctx, c)
}

func (r *runner) connect(c command) (err error) {
	var options []lockhouse.Option
	if c.Token != "" {
		options = append(options, lockhouse.WithToken(c.Token))
	}
	if c.CAFile != "" {
		options = append(options, lockhouse.WithCAFile(c.CAFile))
	}
	if c.TimeoutMs != 0 {
		options = append(options, lockhouse.WithTimeout(time.Duration(c.TimeoutMs)*time.Millisecond))
	}
	r.lh, err = lockhouse.New(c.URL, options...)
	return err
}

func (r *runner) acquire(ctx context.Context, c command) (any, error) {
	// Where an acquire may be cancelled, the permit must not be.
	ask, acquire := r.ask(c)
	if c.Semaphore != "" {
		semaphore := r.lh.Semaphore(c.Semaphore)
		if c.Capacity != nil {
			semaphore = semaphore.OrCreate(*c.Capacity)
		}
		acquire = func(ctx context.Context, _ lockhouse.Ask) (context.Context, *lockhouse.Permit, error) {
			return semaphore.Acquire(ctx, 1)
		}
	}
	ctx, permit, err := acquire(ctx, ask)
	if err != nil {
		return nil, err
	}
	r.watch(ctx, c.As, permit)
	fences, slots := map[string]uint64{}, map[string][]int{}
	for _, it := range permit.Request.Permits {
		fences[it.Semaphore], slots[it.Semaphore] = it.Fence, it.Slots
	}
	return answer{"external_id": permit.Request.ExternalID, "fences": fences, "slots": slots}, nil
}

func (r *runner) block(ctx context.Context, c command) error {
	r.mu.Lock()
	leave := make(chan struct{})
	r.leave[c.As] = leave
	r.mu.Unlock()
	ask, _ := r.ask(c)
	return r.lh.Do(ctx, ask, func(ctx context.Context, permit *lockhouse.Permit) error {
		r.watch(ctx, c.As, permit)
		say(answer{"event": "entered", "permit": c.As})
		<-leave
		return nil
	})
}

type acquire func(context.Context, lockhouse.Ask) (context.Context, *lockhouse.Permit, error)

func (r *runner) ask(c command) (lockhouse.Ask, acquire) {
	ask := lockhouse.Ask{
		Permits:    c.Permits,
		ExternalID: c.ExternalID,
		Owner:      c.Owner,
		TTL:        c.ttl(),
		Priority:   c.Priority,
	}
	isTry := c.WaitMs != nil && *c.WaitMs == 0
	if c.WaitMs != nil {
		ask.Wait = time.Duration(*c.WaitMs) * time.Millisecond
	}
	if c.Session == "" && isTry {
		return ask, r.lh.TryAcquire
	}
	if c.Session == "" {
		return ask, r.lh.Acquire
	}
	session := r.of(c.Session).(*lockhouse.Session)
	if isTry {
		return ask, session.TryAcquire
	}
	return ask, session.Acquire
}

func (r *runner) watch(ctx context.Context, name string, permit *lockhouse.Permit) {
	r.holds(name, permit)
	go func() {
		<-ctx.Done()
		r.lost(name)
	}()
}

func (r *runner) lost(name string) {
	var lost *lockhouse.LostError
	if errors.As(r.of(name).Err(), &lost) {
		say(answer{"event": "lost", "permit": name, "reason": lost.Reason})
	}
}

func (r *runner) call(ctx context.Context, c command) (any, error) {
	switch c.Op {
	case "define":
		definition := lockhouse.Definition{Slots: c.Slots, Note: c.Note, ExpectedCapacity: c.ExpectedCapacity}
		definition.Capacity = *c.Capacity
		return told(r.lh.Define(ctx, c.Semaphore, definition))
	case "define_if_missing":
		return told(r.lh.DefineIfMissing(ctx, c.Semaphore, *c.Capacity))
	case "resize":
		return told(r.lh.Resize(ctx, c.Semaphore, *c.Capacity))
	case "status":
		return told(r.lh.Status(ctx, c.Semaphore))
	case "delete":
		return nil, r.lh.Delete(ctx, c.Semaphore)
	case "list":
		return all("semaphores", r.lh.Semaphores(ctx, c.Prefix))
	case "holders":
		return all("requests", r.lh.Holders(ctx, c.Semaphore))
	case "requests":
		return all("requests", r.lh.Requests(ctx, c.Owner, c.Semaphore))
	case "history":
		changes, err := r.lh.History(ctx, c.Semaphore)
		return answer{"changes": changes}, err
	case "waiting":
		waiting, err := r.lh.Waiting(ctx, c.Semaphore)
		return answer{"waiting": waiting}, err
	case "find":
		return told(r.lh.Find(ctx, c.ExternalID))
	case "force":
		released, err := r.lh.Force(ctx, c.ExternalID, c.By)
		return answer{"released": released}, err
	case "set_template":
		return told(r.lh.SetTemplate(ctx, c.Pattern, *c.Capacity, time.Duration(c.IdleMs)*time.Millisecond))
	case "templates":
		return all("templates", r.lh.Templates(ctx))
	case "delete_template":
		return nil, r.lh.DeleteTemplate(ctx, c.Pattern)
	}
	return nil, fmt.Errorf("there is no operation %q", c.Op)
}

func (c command) ttl() time.Duration {
	if string(c.TTLMs) == "null" {
		return lockhouse.NoTTL
	}
	var ms int64
	_ = json.Unmarshal(c.TTLMs, &ms)
	return time.Duration(ms) * time.Millisecond
}

func (r *runner) holds(name string, it held) {
	r.mu.Lock()
	r.held[name] = it
	r.mu.Unlock()
}

func (r *runner) of(name string) held {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held[name]
}

func told[T any](it T, err error) (any, error) { return it, err }

func all[T any](member string, items iter.Seq2[T, error]) (any, error) {
	found := []T{}
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		found = append(found, item)
	}
	return answer{member: found}, nil
}

var output sync.Mutex

func say(message answer) {
	output.Lock()
	defer output.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(message)
}
