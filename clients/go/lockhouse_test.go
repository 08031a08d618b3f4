package lockhouse_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockhouse/lockhouse/clients/go"
)

var ctx = context.Background()

// server starts a real server with its own database, and returns its URL.
func server(t *testing.T) string {
	t.Helper()
	binary := os.Getenv("LOCKHOUSE_TEST_BINARY")
	if binary == "" {
		binary = "../../target/release/lockhouse"
	}
	database := "sqlite:" + filepath.Join(t.TempDir(), "lockhouse.db")
	command := exec.Command(binary, "serve", "-o", "json", "--listen", "127.0.0.1:0", "--url", database)
	command.Env = append(os.Environ(), "RUST_LOG=warn")
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	line, err := bufio.NewReader(output).ReadBytes('\n')
	if err != nil {
		t.Fatal("the server did not start: ", err)
	}
	var said struct{ URL string }
	if err := json.Unmarshal(line, &said); err != nil {
		t.Fatal(err)
	}
	return said.URL
}

func client(t *testing.T, options ...lockhouse.Option) *lockhouse.Client {
	t.Helper()
	lh, err := lockhouse.New(server(t), options...)
	if err != nil {
		t.Fatal(err)
	}
	return lh
}

func inUse(t *testing.T, lh *lockhouse.Client, name string) int {
	t.Helper()
	status, err := lh.Status(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	return status.InUse
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within 5 s: " + what)
		}
	}
}

func TestNoMoreThanTheCapacityHoldAtOnce(t *testing.T) {
	lh := client(t)
	semaphore := lh.Semaphore("s").OrCreate(3)
	var now, most atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Add(1)
		go func() {
			defer all.Done()
			err := semaphore.Do(ctx, 1, func(context.Context, *lockhouse.Permit) error {
				if held := now.Add(1); held > most.Load() {
					most.Store(held)
				}
				time.Sleep(5 * time.Millisecond)
				now.Add(-1)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}()
	}
	all.Wait()
	if most.Load() > 3 || inUse(t, lh, "s") != 0 {
		t.Errorf("%d held at once, %d after", most.Load(), inUse(t, lh, "s"))
	}
}

func TestAContextThatEndsLeavesTheLine(t *testing.T) {
	lh := client(t)
	semaphore := lh.Semaphore("s").OrCreate(1)
	_, permit, err := semaphore.Acquire(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if _, _, err := semaphore.Acquire(short, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	eventually(t, "the line is empty", func() bool {
		status, err := lh.Status(ctx, "s")
		return err == nil && status.Waiting == 0
	})
	if err := permit.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if err := lh.Close(ctx); err != nil || inUse(t, lh, "s") != 0 {
		t.Errorf("%v, %d in use", err, inUse(t, lh, "s"))
	}
}

func TestTheContextOfAHoldIsCancelledWithItsReason(t *testing.T) {
	lh := client(t)
	held, permit, err := lh.Semaphore("s").OrCreate(1).WithTTL(600*time.Millisecond).Acquire(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if held.Err() != nil || permit.Err() != nil {
		t.Fatal("it is lost too soon")
	}
	child, stop := context.WithCancel(held)
	defer stop()
	if _, err := lh.Force(ctx, permit.Request.ExternalID, "operator"); err != nil {
		t.Fatal(err)
	}
	<-child.Done()
	var lost *lockhouse.LostError
	if !errors.As(context.Cause(child), &lost) || lost.Reason != "forced" || held.Err() == nil {
		t.Fatal(context.Cause(child))
	}
	if err := permit.Release(ctx); !errors.As(err, &lost) {
		t.Fatal(err)
	}
	if err := permit.Release(ctx); !errors.Is(err, lockhouse.ErrReleased) {
		t.Fatal(err)
	}
}

func TestReleaseWorksWhenItsContextIsDone(t *testing.T) {
	lh := client(t)
	done, cancel := context.WithCancel(ctx)
	_, permit, err := lh.Semaphore("s").OrCreate(1).Acquire(done, 1)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := permit.Release(done); err != nil || inUse(t, lh, "s") != 0 {
		t.Fatal(err)
	}
}

func TestDoReturnsTheErrorOfItsFunction(t *testing.T) {
	lh := client(t)
	failed := errors.New("failed")
	err := lh.Semaphore("s").OrCreate(1).Do(ctx, 1, func(_ context.Context, permit *lockhouse.Permit) error {
		_, _ = lh.Force(ctx, permit.Request.ExternalID, "operator")
		return failed
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
}

func TestDoReleasesWhenItsFunctionPanics(t *testing.T) {
	lh := client(t)
	func() {
		defer func() { _ = recover() }()
		_ = lh.Semaphore("s").OrCreate(1).Do(ctx, 1, func(context.Context, *lockhouse.Permit) error { panic("x") })
	}()
	if inUse(t, lh, "s") != 0 {
		t.Fatal("it is held")
	}
}

func TestCloseReleasesWhatIsHeld(t *testing.T) {
	url := server(t)
	lh, err := lockhouse.New(url)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, _, err := lh.Semaphore("s").OrCreate(9).Acquire(ctx, 1); err != nil {
			t.Fatal(err)
		}
	}
	session, err := lh.Session(ctx, "worker", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := session.Acquire(ctx, lockhouse.Ask{Permits: map[string]int{"s": 2}}); err != nil {
		t.Fatal(err)
	}
	if inUse(t, lh, "s") != 7 {
		t.Fatal(inUse(t, lh, "s"))
	}
	if err := lh.Close(ctx); err != nil || inUse(t, lh, "s") != 0 {
		t.Fatal(err, inUse(t, lh, "s"))
	}
}

func TestAnAddressThatIsNoServerIsRefused(t *testing.T) {
	for _, url := range []string{"mysql://db/x", "lockhouse:7117", "http://", "http://ann:s3cr3t@host", "http://h/?a=1"} {
		if _, err := lockhouse.New(url); err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestTheEnvironmentSaysWhereTheServerIs(t *testing.T) {
	t.Setenv("LOCKHOUSE_URL", server(t)+"/")
	t.Setenv("LOCKHOUSE_TOKEN", "lh_secret\n")
	t.Setenv("LOCKHOUSE_CA_FILE", "")
	lh, err := lockhouse.New("")
	if err != nil || !lh.Ready(ctx) {
		t.Fatal(err)
	}
	nowhere, err := lockhouse.New("http://127.0.0.1:9")
	if err != nil || nowhere.Ready(ctx) {
		t.Fatal(err)
	}
}

func TestATimeoutThatIsNotMoreThanZeroIsRefused(t *testing.T) {
	for _, timeout := range []time.Duration{0, -time.Second} {
		if _, err := lockhouse.New("", lockhouse.WithTimeout(timeout)); err == nil {
			t.Errorf("%v was taken", timeout)
		}
	}
}

func TestATokenThatIsMalformedIsNotShown(t *testing.T) {
	_, err := lockhouse.New("", lockhouse.WithToken("lh_s3cr3t\n"))
	if err == nil || strings.Contains(err.Error(), "s3cr3t") {
		t.Fatal(err)
	}
}
