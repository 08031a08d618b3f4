package io.github.lockhouse;

import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.security.cert.CertPathValidatorException;
import java.security.cert.CertificateException;
import java.time.Duration;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLHandshakeException;

/**
 * Calls of one server: asked, and asked again where that can help.
 *
 * <p>Every call of the API is safe to repeat, so a failed connection, a lost answer and a server that says "try again"
 * are all met by asking again, with growing and jittered pauses. Only the deadline bounds the tries.
 */
final class Caller {
    private static final String CALL_ID = "lockhouse-call-id";
    private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(3);
    private static final long FIRST_PAUSE_MS = 50;
    private static final long LONGEST_PAUSE_MS = 1_000;
    private static final Pattern SECONDS = Pattern.compile("\\d{1,9}");

    private final String url;
    private final String token;
    private final HttpClient http;

    /** One call. {@code body} makes the body for each try; null if there is none. */
    record Call(String method, String path, Supplier<Map<String, Object>> body, Map<String, String> headers) {
        static Call of(String method, String path) {
            return new Call(method, path, null, Map.of());
        }

        static Call of(String method, String path, Map<String, Object> body) {
            return new Call(method, path, () -> body, Map.of());
        }
    }

    /** An answer that says yes. {@code before}: an earlier try may have been done. */
    record Asked(int status, Object json, boolean before) {
        Asked after(boolean tries) {
            return tries ? new Asked(status, json, true) : this;
        }
    }

    /** A try that failed. */
    private record Failure(LockhouseException error, boolean mayRetry, long retryAfterMs) {
        static Failure last(LockhouseException error) {
            return new Failure(error, false, 0);
        }

        long pauseNanos(int retry) {
            return TimeUnit.MILLISECONDS.toNanos(Math.max(pauseMs(retry), retryAfterMs));
        }
    }

    /** One of the two is null. */
    private record Tried(Asked asked, Failure failure) {}

    Caller(String url, String token, SSLContext tls) {
        this.url = url;
        this.token = token;
        HttpClient.Builder builder = HttpClient.newBuilder()
                // By HTTP/2 all calls would share one connection, and hang with it.
                .version(HttpClient.Version.HTTP_1_1)
                .followRedirects(HttpClient.Redirect.NEVER)
                .connectTimeout(CONNECT_TIMEOUT);
        this.http = (tls == null ? builder : builder.sslContext(tls)).build();
    }

    String url() {
        return url;
    }

    /** Asks until there is an answer, it is cancelled, or {@code deadline} passes. */
    CompletableFuture<Asked> ask(Call call, long deadline, Cancel cancel) {
        return ask(call, deadline, cancel, 0, false);
    }

    private CompletableFuture<Asked> ask(Call call, long deadline, Cancel cancel, int retry, boolean before) {
        return once(call, deadline, cancel).thenCompose(tried -> {
            if (cancel.why() != null) {
                return cancel.failed();
            }
            if (tried.failure == null) {
                return CompletableFuture.completedFuture(tried.asked.after(before));
            }
            boolean maybeApplied = before || tried.failure.error.maybeApplied();
            long again = Clock.now() + tried.failure.pauseNanos(retry);
            if (!tried.failure.mayRetry || again - deadline >= 0) {
                return CompletableFuture.failedFuture(tried.failure.error.withMaybeApplied(maybeApplied));
            }
            CompletableFuture<Void> pause = new CompletableFuture<>();
            Clock.at(again, () -> pause.complete(null));
            return cancel.watch(pause)
                    .exceptionallyCompose(cancelled -> cancel.failed())
                    .thenCompose(over -> ask(call, deadline, cancel, retry + 1, maybeApplied));
        });
    }

    /** The same on the caller's thread, which spares the hand-over between threads. An interrupt ends it. */
    Asked askHere(Call call, long deadline) throws InterruptedException {
        boolean before = false;
        for (int retry = 0; ; retry++) {
            Tried tried = onceHere(call, deadline);
            if (tried.failure == null) {
                return tried.asked.after(before);
            }
            before = before || tried.failure.error.maybeApplied();
            long pause = tried.failure.pauseNanos(retry);
            if (!tried.failure.mayRetry || Clock.now() + pause - deadline >= 0) {
                throw tried.failure.error.withMaybeApplied(before);
            }
            TimeUnit.NANOSECONDS.sleep(pause);
        }
    }

    /** One renewal: why the hold is lost, if the server says so; else null. */
    CompletableFuture<String> renew(Call call, long deadline) {
        return once(call, deadline, new Cancel()).thenApply(tried -> {
            if (tried.failure == null) {
                return null;
            }
            LockhouseException error = tried.failure.error;
            if (error instanceof EndedException ended) {
                return ended.endReason().orElse("owner_dead");
            }
            if (error.code().equals("unknown_request")) {
                return "unknown";
            }
            throw error;
        });
    }

    /** One to two times 50 ms, then twice that, up to two seconds. */
    static long pauseMs(int retry) {
        long pause = Math.min(FIRST_PAUSE_MS << Math.min(retry, 10), LONGEST_PAUSE_MS);
        return pause + ThreadLocalRandom.current().nextLong(pause);
    }

    private CompletableFuture<Tried> once(Call call, long deadline, Cancel cancel) {
        String id = UUID.randomUUID().toString();
        CompletableFuture<HttpResponse<String>> sent =
                http.sendAsync(request(call, id, deadline), Body.until(deadline));
        return cancel.watch(sent).handle((response, error) -> {
            if (error != null) {
                return new Tried(null, broken(error instanceof CompletionException ? error.getCause() : error));
            }
            return read(response, id);
        });
    }

    private Tried onceHere(Call call, long deadline) throws InterruptedException {
        String id = UUID.randomUUID().toString();
        try {
            return read(http.send(request(call, id, deadline), Body.until(deadline)), id);
        } catch (IOException error) {
            return new Tried(null, broken(error));
        }
    }

    private HttpRequest request(Call call, String id, long deadline) {
        HttpRequest.Builder builder = HttpRequest.newBuilder(URI.create(url + call.path))
                .timeout(Duration.ofNanos(Math.max(deadline - Clock.now(), 1_000_000)))
                .header("accept", "application/json")
                .header("user-agent", "lockhouse-java/" + Lockhouse.VERSION)
                .header(CALL_ID, id);
        call.headers.forEach(builder::header);
        if (token != null) {
            builder.header("authorization", "Bearer " + token);
        }
        BodyPublisher body = BodyPublishers.noBody();
        if (call.body != null) {
            body = BodyPublishers.ofString(Json.write(call.body.get()));
            builder.header("content-type", "application/json");
        }
        return builder.method(call.method, body).build();
    }

    /** A try without an answer. */
    private Failure broken(Throwable error) {
        boolean isCertificate = isCertificate(error);
        boolean wasSent =
                !(error instanceof ConnectException
                        || error instanceof HttpConnectTimeoutException
                        || error instanceof SSLHandshakeException);
        String detail = url + " did not answer: " + error;
        UnavailableException unavailable = new UnavailableException("store_unavailable", detail, Map.of(), error);
        unavailable.setMaybeApplied(wasSent);
        return new Failure(unavailable, !isCertificate, 0);
    }

    /** Another try would find the same certificate. A handshake that was cut off is not that. */
    private static boolean isCertificate(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof CertificateException || cause instanceof CertPathValidatorException) {
                return error instanceof SSLHandshakeException;
            }
        }
        return false;
    }

    private Tried read(HttpResponse<String> response, String id) {
        if (!response.headers().firstValue(CALL_ID).orElse(id).equals(id)) {
            return new Tried(null, broken(new IllegalStateException("the answer is to another call")));
        }
        int status = response.statusCode();
        boolean isGood = status >= 200 && status < 300;
        Object json = null;
        try {
            json = response.body().isEmpty() ? null : Json.parse(response.body());
        } catch (IllegalArgumentException error) {
            if (isGood) {
                return new Tried(null, Failure.last(foreign(response)));
            }
        }
        if (isGood) {
            return new Tried(new Asked(status, json, false), null);
        }
        return new Tried(null, refused(response, json instanceof Map<?, ?> ? Wire.of(json) : new Wire(Map.of())));
    }

    private Failure refused(HttpResponse<String> response, Wire problem) {
        int status = response.statusCode();
        String code = problem.members().get("code") instanceof String text ? text : null;
        UnavailableException plain =
                new UnavailableException("store_unavailable", url + " answered " + status, Map.of(), null);
        if (status == 503 || status == 429) {
            String after = response.headers().firstValue("retry-after").orElse("");
            long afterMs = SECONDS.matcher(after).matches() ? Long.parseLong(after) * 1_000 : 0;
            return new Failure(code == null ? plain : LockhouseException.of(code, problem.members()), true, afterMs);
        }
        boolean isOfTheApi = code != null && status != 405 && !(status == 404 && code.equals("invalid_request"));
        if (isOfTheApi) {
            return Failure.last(LockhouseException.of(code, problem.members()));
        }
        // Not the words of a server: those of a proxy before it, or of something else.
        if (status == 502 || status == 504) {
            plain.setMaybeApplied(true);
            return new Failure(plain, true, 0);
        }
        if (status == 401 || status == 403) {
            String denied = status == 401 ? "unauthenticated" : "forbidden";
            return Failure.last(new DeniedException(denied, url + " answered " + status, Map.of()));
        }
        return Failure.last(foreign(response));
    }

    private RefusedException foreign(HttpResponse<String> response) {
        String to = response.headers().firstValue("location").map(it -> " to " + it).orElse("");
        String detail = url + " answered " + response.statusCode() + to + "; is it the URL of a lockhouse server?";
        return new RefusedException("invalid_request", detail, Map.of());
    }
}
