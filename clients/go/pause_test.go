package lockhouse

import (
	"testing"
	"time"
)

func TestPausesGrowUpToTwoSeconds(t *testing.T) {
	for retry, least := range map[int]time.Duration{0: firstPause, 1: 2 * firstPause, 100: longestPause} {
		for range 100 {
			if pause := pauseBefore(retry); pause < least || pause > 2*least {
				t.Fatalf("pause %d is %v", retry, pause)
			}
		}
	}
}

func TestClientsThatFailTogetherDoNotComeBackTogether(t *testing.T) {
	pauses := map[time.Duration]bool{}
	for range 100 {
		pauses[pauseBefore(3)] = true
	}
	if len(pauses) < 90 {
		t.Fatalf("only %d of 100 pauses differ", len(pauses))
	}
}
