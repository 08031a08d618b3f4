package lockhouse_test

import (
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/lockhouse/lockhouse/clients/go"
)

func TestAListingCanBeRangedOverAgain(t *testing.T) {
	pages := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		first, last, next := "a", "b", `"b"`
		if request.URL.Query().Get("cursor") != "" {
			first, last, next = "c", "d", "null"
		}
		for _, member := range []string{"semaphores", "holders", "requests", "templates"} {
			if path := request.URL.Path; path == "/v1/"+member || path == "/v1/semaphores/s/"+member {
				name := map[string]string{"semaphores": "name", "templates": "pattern"}[member]
				if name == "" {
					name = "external_id"
				}
				fmt.Fprintf(answer, `{%q: [{%q: %q}, {%q: %q}], "next": %s}`, member, name, first, name, last, next)
			}
		}
	}))
	defer pages.Close()
	lh, err := lockhouse.New(pages.URL)
	if err != nil {
		t.Fatal(err)
	}
	inFull(t, lh.Semaphores(ctx, "x"), func(it lockhouse.SemaphoreStatus) string { return it.Name })
	inFull(t, lh.Holders(ctx, "s"), func(it lockhouse.Request) string { return it.ExternalID })
	inFull(t, lh.Requests(ctx, "o", ""), func(it lockhouse.Request) string { return it.ExternalID })
	inFull(t, lh.Templates(ctx), func(it lockhouse.Template) string { return it.Pattern })
}

func inFull[T any](t *testing.T, listing iter.Seq2[T, error], name func(T) string) {
	t.Helper()
	for range 2 {
		var names []string
		for it, err := range listing {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name(it))
		}
		if !slices.Equal(names, []string{"a", "b", "c", "d"}) {
			t.Error(names)
		}
	}
}
