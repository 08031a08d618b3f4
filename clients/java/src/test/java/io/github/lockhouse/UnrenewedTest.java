package io.github.lockhouse;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** A server that answers an ask as a repeated one, so that the client renews it, and refuses the renewal. */
class UnrenewedTest {
    private static final String GRANTED =
            """
            {"external_id":"x","state":"acquired","permits":[{"semaphore":"s","count":1,"fence":1}],"ttl_ms":60000,
            "expires_at":"2030-01-01T00:00:00Z","created_at":"2029-01-01T00:00:00Z"}
            """;

    @Test
    void aGrantThatCannotBeRenewedIsGivenBack() throws IOException, InterruptedException {
        CountDownLatch givenBack = new CountDownLatch(1);
        StubServer stub = new StubServer(method -> switch (method) {
            case "PUT" -> StubServer.answer("200 OK", GRANTED);
            case "POST" -> StubServer.answer("403 Forbidden", "{\"code\":\"forbidden\",\"detail\":\"no\"}");
            default -> {
                givenBack.countDown();
                yield StubServer.answer("404 Not Found", "{\"code\":\"unknown_request\",\"detail\":\"it is gone\"}");
            }
        });
        try (stub;
                Lockhouse lockhouse = Lockhouse.builder()
                        .url(stub.url())
                        .timeout(Duration.ofSeconds(2))
                        .build()) {
            assertThrows(
                    DeniedException.class, () -> lockhouse.semaphore("s").tryAcquire());
            assertTrue(givenBack.await(5, TimeUnit.SECONDS));
        }
    }
}
