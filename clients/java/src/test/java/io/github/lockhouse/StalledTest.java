package io.github.lockhouse;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;

import java.io.IOException;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** A server whose answers begin and do not end. */
class StalledTest {
    private static final String BEGIN = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{";

    @Test
    void anAnswerThatDoesNotEndCountsAsNone() throws IOException {
        try (StubServer server = new StubServer(method -> BEGIN);
                Lockhouse lockhouse = Lockhouse.builder()
                        .url(server.url())
                        .timeout(Duration.ofMillis(500))
                        .build()) {
            isUnavailable(() -> lockhouse.status("s"));
            isUnavailable(() -> lockhouse.semaphore("s").tryAcquire());
        }
    }

    private static void isUnavailable(Executable call) {
        assertTimeoutPreemptively(Duration.ofSeconds(10), () -> assertThrows(UnavailableException.class, call));
    }
}
