package io.github.lockhouse;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/** How long an acquire and its release take by the client, and as two bare calls on one connection. */
final class ContractOverhead {
    private interface Work {
        void run() throws IOException, InterruptedException;
    }

    private final HttpClient http =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final Lockhouse lockhouse;
    private final String url;
    private final String semaphore;

    ContractOverhead(Lockhouse lockhouse, String url, String semaphore) {
        this.lockhouse = lockhouse;
        this.url = url.replaceAll("/$", "");
        this.semaphore = semaphore;
    }

    Object measure(int times) throws IOException, InterruptedException {
        List<Double> bare = new ArrayList<>();
        List<Double> byClient = new ArrayList<>();
        for (int i = 0; i < times; i++) {
            bare.add(tookUs(this::bare));
            byClient.add(tookUs(this::byClient));
        }
        return Map.of("bare_us", bare, "client_us", byClient);
    }

    private void bare() throws IOException, InterruptedException {
        String path = "/v1/requests/" + UUID.randomUUID();
        Map<String, Object> ask = Map.of("semaphore", semaphore, "count", 1);
        Map<String, Object> body = Map.of("permits", List.of(ask), "ttl_ms", 30_000, "wait_ms", 0);
        call("PUT", path, BodyPublishers.ofString(Json.write(body)));
        call("DELETE", path, BodyPublishers.noBody());
    }

    private void byClient() throws InterruptedException {
        lockhouse.request().permits(semaphore, 1).atMost(Duration.ZERO).acquire().release();
    }

    private void call(String method, String path, BodyPublisher body) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(url + path))
                .method(method, body)
                .header("content-type", "application/json")
                .build();
        Json.parse(http.send(request, BodyHandlers.ofString()).body());
    }

    private static double tookUs(Work work) throws IOException, InterruptedException {
        long began = System.nanoTime();
        work.run();
        return (System.nanoTime() - began) / 1e3;
    }
}
