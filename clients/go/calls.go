package lockhouse

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"net/url"
	"time"
)

// SemaphoreStatus is the state of a semaphore when the server answered. InUse permits are held, Available ones are
// free, and Waiting calls wait. Fence is the highest so far. Template is the pattern of the template that created it.
type SemaphoreStatus struct {
	Name      string    `json:"name"`
	Capacity  int       `json:"capacity"`
	InUse     int       `json:"in_use"`
	Available int       `json:"available"`
	Waiting   int       `json:"waiting"`
	Fence     uint64    `json:"fence"`
	Slots     bool      `json:"slots"`
	Template  string    `json:"template"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// HeldPermit has the permits of a request on one semaphore.
type HeldPermit struct {
	Semaphore string `json:"semaphore"`
	Count     int    `json:"count"`
	Fence     uint64 `json:"fence"`
	Slots     []int  `json:"slots"`
}

// Request is a request that was granted, held or ended. State is acquired while it is held, then released. EndReason
// is released, expired, owner_dead, stale or forced. EndedBy is the caller that released it or ended it by force.
type Request struct {
	ExternalID string       `json:"external_id"`
	State      string       `json:"state"`
	EndReason  string       `json:"end_reason"`
	EndedBy    string       `json:"ended_by"`
	Owner      string       `json:"owner"`
	Permits    []HeldPermit `json:"permits"`
	TTLMs      *int64       `json:"ttl_ms"`
	ExpiresAt  *time.Time   `json:"expires_at"`
	CreatedAt  time.Time    `json:"created_at"`
	ReleasedAt *time.Time   `json:"released_at"`
}

// TTL is its time to live, or NoTTL.
func (r Request) TTL() time.Duration {
	if r.TTLMs == nil {
		return NoTTL
	}
	return time.Duration(*r.TTLMs) * time.Millisecond
}

// CapacityChange is an entry of a semaphore's history.
type CapacityChange struct {
	OldCapacity int       `json:"old_capacity"`
	NewCapacity int       `json:"new_capacity"`
	ChangedBy   string    `json:"changed_by"`
	Note        string    `json:"note"`
	ChangedAt   time.Time `json:"changed_at"`
}

// Waiter is a call that waits for a semaphore.
type Waiter struct {
	ExternalID string    `json:"external_id"`
	Owner      string    `json:"owner"`
	Count      int       `json:"count"`
	Priority   int       `json:"priority"`
	Since      time.Time `json:"since"`
}

// Template is a rule that creates semaphores on first use: customer/* has capacity 2.
type Template struct {
	Pattern  string `json:"pattern"`
	Capacity int    `json:"capacity"`
	IdleMs   *int64 `json:"idle_ms"`
}

// Definition is how Define creates or changes a semaphore.
type Definition struct {
	// Capacity is the number of its permits; 0 closes it. A smaller capacity revokes no permit.
	Capacity int `json:"capacity"`
	// Slots gives each permit an index that no other live permit has: see Permit.Slots.
	Slots bool `json:"slots,omitempty"`
	// Note and ChangedBy go to the history.
	Note      string `json:"note,omitempty"`
	ChangedBy string `json:"changed_by,omitempty"`
	// ExpectedCapacity, if given, must be its capacity now; otherwise the call returns ErrCapacityChanged.
	ExpectedCapacity *int `json:"expected_capacity,omitempty"`
}

// Define creates a semaphore, or sets its capacity.
func (c *Client) Define(ctx context.Context, name string, is Definition) (SemaphoreStatus, error) {
	return c.define(ctx, name, is, nil)
}

// DefineIfMissing creates a semaphore unless there is one, which keeps its capacity.
func (c *Client) DefineIfMissing(ctx context.Context, name string, capacity int) (SemaphoreStatus, error) {
	missing := map[string]string{"if-none-match": "*"}
	status, err := c.define(ctx, name, Definition{Capacity: capacity}, missing)
	if hasCode(err, ErrCapacityChanged) {
		return c.Status(ctx, name)
	}
	return status, err
}

// Resize sets the capacity of a semaphore that must exist.
func (c *Client) Resize(ctx context.Context, name string, capacity int) (SemaphoreStatus, error) {
	return c.define(ctx, name, Definition{Capacity: capacity}, map[string]string{"if-match": "*"})
}

func (c *Client) define(ctx context.Context, name string, is Definition, header map[string]string) (SemaphoreStatus, error) {
	return named[SemaphoreStatus](ctx, c, "PUT", is, header, "semaphores", name)
}

// Status returns the capacity, the use and the waiters of a semaphore now.
func (c *Client) Status(ctx context.Context, name string) (SemaphoreStatus, error) {
	return named[SemaphoreStatus](ctx, c, "GET", nil, nil, "semaphores", name)
}

// Delete deletes a semaphore of which nothing is held.
func (c *Client) Delete(ctx context.Context, name string) error {
	at, err := path("semaphores", name)
	if err != nil {
		return err
	}
	_, err = c.do(ctx, call{method: "DELETE", path: at}, nil)
	if hasCode(err, ErrUnknownSemaphore) && maybeApplied(err) {
		return nil // An earlier try, whose answer was lost, has deleted it.
	}
	return err
}

// Semaphores lists all semaphores whose names begin with prefix, by name. It reads page after page while it is
// ranged over, each time from the first, and ends after an error.
func (c *Client) Semaphores(ctx context.Context, prefix string) iter.Seq2[SemaphoreStatus, error] {
	return pages[SemaphoreStatus](ctx, c, "/v1/semaphores", "semaphores", url.Values{"prefix": {prefix}})
}

// Holders lists the requests that hold permits of a semaphore.
func (c *Client) Holders(ctx context.Context, name string) iter.Seq2[Request, error] {
	at, err := path("semaphores", name, "holders")
	if err != nil {
		return func(yield func(Request, error) bool) { yield(Request{}, err) }
	}
	return pages[Request](ctx, c, at, "holders", url.Values{})
}

// Requests lists the live requests of an owner and on a semaphore; an empty name stands for all.
func (c *Client) Requests(ctx context.Context, owner, semaphore string) iter.Seq2[Request, error] {
	filters := url.Values{"owner": {owner}, "semaphore": {semaphore}}
	return pages[Request](ctx, c, "/v1/requests", "requests", filters)
}

// History lists the changes of a semaphore's capacity, newest first.
func (c *Client) History(ctx context.Context, name string) ([]CapacityChange, error) {
	answer, err := named[struct {
		Changes []CapacityChange `json:"changes"`
	}](ctx, c, "GET", nil, nil, "semaphores", name, "history")
	return answer.Changes, err
}

// Waiting lists the calls that wait for a semaphore, in the order in which they are served.
func (c *Client) Waiting(ctx context.Context, name string) ([]Waiter, error) {
	answer, err := named[struct {
		Waiting []Waiter `json:"waiting"`
	}](ctx, c, "GET", nil, nil, "semaphores", name, "waiting")
	return answer.Waiting, err
}

// Find finds a request by its id, held or ended. It returns ErrUnknownRequest if there is none.
func (c *Client) Find(ctx context.Context, externalID string) (Request, error) {
	return named[Request](ctx, c, "GET", nil, nil, "requests", externalID)
}

// Renew extends a hold to ttl from now. A Permit renews itself.
func (c *Client) Renew(ctx context.Context, externalID string, ttl time.Duration) (Request, error) {
	if _, err := milliseconds("a TTL", ttl); err != nil {
		return Request{}, err
	}
	return named[Request](ctx, c, "POST", renewBody(ttl), nil, "requests", externalID, "renew")
}

func renewBody(ttl time.Duration) any { return map[string]int64{"ttl_ms": ttl.Milliseconds()} }

// Force ends anybody's request, and reports whether this call did it. Its holder learns it at the next renewal.
func (c *Client) Force(ctx context.Context, externalID, by string) (bool, error) {
	return c.end(ctx, externalID, by, true)
}

func (c *Client) end(ctx context.Context, id, by string, isForced bool) (bool, error) {
	at, err := path("requests", id)
	if err != nil {
		return false, err
	}
	query := url.Values{"by": {by}}
	if isForced {
		query.Set("force", "true")
	}
	began := time.Now()
	var ended struct {
		Request
		Released   bool       `json:"released"`
		DecidedAt  time.Time  `json:"decided_at"`
		FinishedAt *time.Time `json:"finished_at"`
	}
	answer, err := c.do(ctx, call{method: "DELETE", path: at + withQuery(query)}, &ended)
	if err != nil || ended.Released || !answer.before || ended.ReleasedAt == nil {
		return ended.Released, err
	}
	if ended.FinishedAt != nil { // The holder's own transaction released it.
		return false, nil
	}
	// A request that ended before this call began was not ended by an earlier try of the call.
	isOurs := (ended.EndReason == "forced") == isForced && (isForced || ended.EndReason == "released")
	return isOurs && ended.DecidedAt.Sub(*ended.ReleasedAt) <= time.Since(began), nil
}

// SetTemplate has semaphores whose names match the pattern, such as customer/*, created on first use. One that
// nobody has used for idle is deleted; zero is the server's default.
func (c *Client) SetTemplate(ctx context.Context, pattern string, capacity int, idle time.Duration) (Template, error) {
	body := map[string]int64{"capacity": int64(capacity)}
	if idle != 0 {
		idleMs, err := milliseconds("an idle time", idle)
		if err != nil {
			return Template{}, err
		}
		body["idle_ms"] = idleMs
	}
	return named[Template](ctx, c, "PUT", body, nil, "templates", pattern)
}

// Templates lists all templates.
func (c *Client) Templates(ctx context.Context) iter.Seq2[Template, error] {
	return pages[Template](ctx, c, "/v1/templates", "templates", url.Values{})
}

// DeleteTemplate deletes a template; semaphores that it created stay.
func (c *Client) DeleteTemplate(ctx context.Context, pattern string) error {
	_, err := named[struct{}](ctx, c, "DELETE", nil, nil, "templates", pattern)
	return err
}

// named is a call about one thing: of, its name, and what is below.
func named[T any](
	ctx context.Context, c *Client, method string, body any, header map[string]string, of, name string, below ...string,
) (T, error) {
	var answer T
	at, err := path(of, name, below...)
	if err != nil {
		return answer, err
	}
	it := call{method: method, path: at, header: header}
	if body != nil {
		it.body = fixed(body)
	}
	asked, err := c.do(ctx, it, nil)
	if err != nil || len(asked.body) == 0 {
		return answer, err
	}
	return answer, c.read(asked, &answer)
}

// pages reads a listing, one page after the other, from the first page each time that it is ranged over.
func pages[T any](ctx context.Context, c *Client, at, member string, query url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query := maps.Clone(query)
		for {
			items, next, err := page[T](ctx, c, at+withQuery(query), member)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == nil {
				return
			}
			query.Set("cursor", *next)
		}
	}
}

func page[T any](ctx context.Context, c *Client, at, member string) (items []T, next *string, err error) {
	var members map[string]json.RawMessage
	if _, err := c.do(ctx, call{method: "GET", path: at}, &members); err != nil {
		return nil, nil, err
	}
	if err := c.read(asked{body: members[member]}, &items); err != nil {
		return nil, nil, err
	}
	if cursor, ok := members["next"]; ok {
		err = c.read(asked{body: cursor}, &next)
	}
	return items, next, err
}

func withQuery(query url.Values) string {
	for name, values := range query {
		if values[0] == "" {
			query.Del(name)
		}
	}
	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}
