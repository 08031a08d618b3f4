package io.github.lockhouse;

import io.github.lockhouse.Caller.Asked;
import io.github.lockhouse.Caller.Call;
import java.net.InetAddress;
import java.net.URLEncoder;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Function;
import java.util.regex.Pattern;

/**
 * The client of one server. Safe for many threads.
 *
 * <pre>{@code
 * try (var lockhouse = Lockhouse.connect();
 *         var permit = lockhouse.semaphore("gpu").acquire()) { … }
 * }</pre>
 *
 * <p>A call whose answer is lost, or that meets a restarting server, is retried until the timeout. Then it throws {@link
 * UnavailableException}. {@link #close} releases what is still held.
 */
public final class Lockhouse implements AutoCloseable {
    /** The version of this package. */
    public static final String VERSION = "0.1.0";

    private static final String DEFAULT_URL = "http://127.0.0.1:7117";

    private final Caller caller;
    private final Duration timeout;
    private final Opened opened = new Opened();

    private Lockhouse(Builder builder) {
        caller = new Caller(Address.checked(builder.url), builder.token, Address.trusting(builder.caFile));
        timeout = builder.timeout;
    }

    /** Settings of a client. */
    public static final class Builder {
        private static final Pattern TOKEN = Pattern.compile("[!-~]+");

        private String url = environment("LOCKHOUSE_URL").orElse(DEFAULT_URL);
        private String token = environment("LOCKHOUSE_TOKEN").orElse(null);
        private Path caFile = environment("LOCKHOUSE_CA_FILE").map(Path::of).orElse(null);
        private Duration timeout = Duration.ofSeconds(10);

        private Builder() {}

        /** Empty is unset. */
        private static Optional<String> environment(String name) {
            return Optional.ofNullable(System.getenv(name)).map(String::strip).filter(it -> !it.isEmpty());
        }

        /** Where the server is; the environment's {@code LOCKHOUSE_URL} unless set, or {@code http://127.0.0.1:7117}. */
        public Builder url(String value) {
            url = value;
            return this;
        }

        /** The access token, which is sent with every call; the environment's {@code LOCKHOUSE_TOKEN} unless set. */
        public Builder token(String value) {
            token = Objects.requireNonNull(value);
            return this;
        }

        /**
         * A PEM file of the authority that signed the server's certificate; the environment's {@code LOCKHOUSE_CA_FILE} unless
         * set.
         */
        public Builder caFile(Path value) {
            caFile = value;
            return this;
        }

        /**
         * Bounds each call with all its retries, beyond the wait that it asks for; 10 s unless set. Then the call throws
         * {@link UnavailableException}.
         */
        public Builder timeout(Duration value) {
            timeout = value;
            return this;
        }

        /**
         * The client. Nothing is connected to yet.
         *
         * @throws IllegalArgumentException if a setting has a value that no server has, or the timeout is not more than 0
         */
        public Lockhouse build() {
            if (token != null && !TOKEN.matcher(token).matches()) {
                // Told here, as the error of HttpRequest would show it.
                throw new IllegalArgumentException("the token has characters that no token has, such as a space");
            }
            if (timeout.isNegative() || timeout.isZero()) {
                throw new IllegalArgumentException("the timeout must be more than 0");
            }
            return new Lockhouse(this);
        }
    }

    /** Settings of a client. */
    public static Builder builder() {
        return new Builder();
    }

    /** The client of the server that the environment names, or of {@code http://127.0.0.1:7117}. */
    public static Lockhouse connect() {
        return builder().build();
    }

    /** A handle on the semaphore of this name, which must exist or match a template. It holds nothing itself. */
    public Semaphore semaphore(String name) {
        return new Semaphore(this, name, null, Request.DEFAULT_TTL);
    }

    /** A request for permits on several semaphores, or with an id, an owner or a priority. */
    public Request request() {
        return new Request(this);
    }

    /**
     * Begins an owner's session: one heartbeat keeps all that is acquired through it.
     *
     * <p>Two processes must not have sessions of the same owner at the same time: a goodbye releases all that the owner
     * holds.
     * Without a heartbeat for {@code ttl} the server ends the session.
     */
    public Session session(String owner, Duration ttl) {
        String path = path("owners", owner);
        long sentAt = Clock.now();
        ask(Call.of("PUT", path, Map.of("ttl_ms", Clock.millis(ttl))));
        Call beat = Call.of("PUT", path, Map.of("ttl_ms", Clock.millis(ttl), "must_exist", true));
        return new Session(this, owner, new Hold("the session of " + owner, caller, beat, ttl, sentAt));
    }

    /** Creates a semaphore, or sets its capacity; 0 closes it. A smaller capacity revokes no permit. */
    public SemaphoreStatus define(String name, int capacity) {
        return define(name, Definition.of(capacity));
    }

    /** Creates a semaphore, or sets its capacity; 0 closes it. A smaller capacity revokes no permit. */
    public SemaphoreStatus define(String name, Definition definition) {
        return define(name, definition.body(), Map.of());
    }

    /** Creates a semaphore unless there is one, which keeps its capacity. */
    public SemaphoreStatus defineIfMissing(String name, int capacity) {
        try {
            return define(name, Map.of("capacity", capacity), Map.of("if-none-match", "*"));
        } catch (RefusedException error) {
            if (!error.code().equals("capacity_changed")) {
                throw error;
            }
        }
        return status(name);
    }

    /** Sets the capacity of a semaphore that must exist. */
    public SemaphoreStatus resize(String name, int capacity) {
        return define(name, Map.of("capacity", capacity), Map.of("if-match", "*"));
    }

    private SemaphoreStatus define(String name, Map<String, Object> body, Map<String, String> headers) {
        return read(ask(new Call("PUT", path("semaphores", name), () -> body, headers)), SemaphoreStatus::of);
    }

    /** The capacity, the use and the waiters of a semaphore now. */
    public SemaphoreStatus status(String name) {
        return read(ask(Call.of("GET", path("semaphores", name))), SemaphoreStatus::of);
    }

    /** Deletes a semaphore of which nothing is held. */
    public void delete(String name) {
        try {
            ask(Call.of("DELETE", path("semaphores", name)));
        } catch (RefusedException error) {
            // An earlier try, whose answer was lost, may have deleted it.
            if (!error.code().equals("unknown_semaphore") || !error.maybeApplied()) {
                throw error;
            }
        }
    }

    /** All semaphores, by name. */
    public List<SemaphoreStatus> semaphores() {
        return pages("/v1/semaphores", "semaphores", Map.of(), SemaphoreStatus::of);
    }

    /** The semaphores whose names begin with {@code prefix}, by name. */
    public List<SemaphoreStatus> semaphores(String prefix) {
        return pages("/v1/semaphores", "semaphores", Map.of("prefix", prefix), SemaphoreStatus::of);
    }

    /** The requests that hold permits of a semaphore. */
    public List<RequestStatus> holders(String name) {
        return pages(path("semaphores", name, "holders"), "holders", Map.of(), RequestStatus::of);
    }

    /** The live requests of an owner. */
    public List<RequestStatus> requestsOf(String owner) {
        return pages("/v1/requests", "requests", Map.of("owner", owner), RequestStatus::of);
    }

    /** The live requests on a semaphore. */
    public List<RequestStatus> requestsOn(String semaphore) {
        return pages("/v1/requests", "requests", Map.of("semaphore", semaphore), RequestStatus::of);
    }

    /** Changes of the capacity, newest first. */
    public List<CapacityChange> history(String name) {
        String path = path("semaphores", name, "history");
        return read(ask(Call.of("GET", path)), json -> Wire.of(json).list("changes", CapacityChange::of));
    }

    /** The calls that wait for a semaphore, in the order in which they are served. */
    public List<Waiter> waiting(String name) {
        String path = path("semaphores", name, "waiting");
        return read(ask(Call.of("GET", path)), json -> Wire.of(json).list("waiting", Waiter::of));
    }

    /** Finds a request by its id, held or ended. Refused with {@code unknown_request} if there is none. */
    public RequestStatus find(String externalId) {
        return read(ask(Call.of("GET", path("requests", externalId))), RequestStatus::of);
    }

    /** Extends a hold to {@code ttl} from now. A {@link Permit} renews itself. */
    public RequestStatus renew(String externalId, Duration ttl) {
        Map<String, Object> body = Map.of("ttl_ms", Clock.millis(ttl));
        return read(ask(Call.of("POST", path("requests", externalId, "renew"), body)), RequestStatus::of);
    }

    /** Ends anybody's request. Returns whether this call ended it. Its holder learns it at the next renewal. */
    public boolean force(String externalId) {
        return end(externalId, null, true);
    }

    /** Ends anybody's request, and records who did. Returns whether this call ended it. */
    public boolean force(String externalId, String by) {
        return end(externalId, by, true);
    }

    /** Releases all that an owner holds, and ends its session. Returns how many requests it released. */
    public long goodbye(String owner) {
        return read(ask(Call.of("DELETE", path("owners", owner))), json -> Wire.of(json).number("released"));
    }

    /** Has semaphores whose names match the pattern, such as {@code customer/*}, created on first use. */
    public Template setTemplate(String pattern, int capacity) {
        return setTemplate(pattern, Map.of("capacity", capacity));
    }

    /** The same; a semaphore that nobody has used for {@code idle} is deleted. */
    public Template setTemplate(String pattern, int capacity, Duration idle) {
        return setTemplate(pattern, Map.of("capacity", capacity, "idle_ms", Clock.millis(idle)));
    }

    private Template setTemplate(String pattern, Map<String, Object> body) {
        return read(ask(Call.of("PUT", path("templates", pattern), body)), Template::of);
    }

    /** All templates. */
    public List<Template> templates() {
        return pages("/v1/templates", "templates", Map.of(), Template::of);
    }

    /** Deletes a template; semaphores that it created stay. */
    public void deleteTemplate(String pattern) {
        ask(Call.of("DELETE", path("templates", pattern)));
    }

    /**
     * Releases all that is held, says goodbye for all sessions, and waits for releases that are under way, for at most the
     * timeout. It does not throw: where a release fails, the TTL ends the hold.
     */
    @Override
    public void close() {
        opened.close(timeout);
    }

    @Override
    public String toString() {
        return "Lockhouse[" + caller.url() + "]";
    }

    boolean end(String externalId, String by, boolean isForced) {
        Map<String, String> query = new LinkedHashMap<>();
        if (by != null) {
            query.put("by", by);
        }
        if (isForced) {
            query.put("force", "true");
        }
        long began = Clock.now();
        Asked asked = ask(Call.of("DELETE", path("requests", externalId) + query(query)));
        Wire ended = Wire.of(asked.json());
        boolean isSame = (isForced ? "forced" : "released").equals(ended.text("end_reason"));
        // The holder's own transaction released what is finished.
        boolean isFinished = ended.maybeTime("finished_at").isPresent();
        if (ended.is("released") || !asked.before() || !isSame || isFinished) {
            return ended.is("released");
        }
        // A request that ended before this call began was not ended by an earlier try of the call.
        Instant decidedAt = ended.time("decided_at");
        Duration ago = Duration.between(ended.maybeTime("released_at").orElse(decidedAt), decidedAt);
        return ago.compareTo(Duration.ofNanos(Clock.now() - began)) <= 0;
    }

    Caller caller() {
        return caller;
    }

    long timeoutNanos() {
        return Clock.nanos(timeout);
    }

    void opened(AutoCloseable it) {
        opened.add(it);
    }

    void closed(AutoCloseable it) {
        opened.remove(it);
    }

    void inBackground(Opened.Work work) {
        opened.run(work);
    }

    <T> T read(Asked asked, Function<Object, T> of) {
        try {
            return of.apply(asked.json());
        } catch (RuntimeException error) {
            String detail = caller.url() + " answered what no lockhouse server does";
            throw new UnavailableException("internal", detail, Map.of(), error);
        }
    }

    private Asked ask(Call call) {
        long deadline = Clock.in(timeout);
        boolean wasInterrupted = false;
        try {
            // A release has to go through for an interrupted thread too, and every call is safe to repeat.
            while (true) {
                try {
                    return caller.askHere(call, deadline).after(wasInterrupted);
                } catch (InterruptedException error) {
                    wasInterrupted = true;
                }
            }
        } finally {
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private <T> List<T> pages(String path, String member, Map<String, String> filters, Function<Object, T> of) {
        List<T> all = new ArrayList<>();
        Map<String, String> query = new HashMap<>(filters);
        String cursor;
        do {
            Asked asked = ask(Call.of("GET", path + query(query)));
            all.addAll(read(asked, json -> Wire.of(json).list(member, of)));
            cursor = read(asked, json -> Wire.of(json).text("next"));
            query.put("cursor", cursor);
        } while (cursor != null);
        return all;
    }

    /** {@code /v1}, what it is of, and the name as one segment. */
    static String path(String of, String name, String... below) {
        if (name.isEmpty() || name.equals(".") || name.equals("..")) {
            String detail = "a URL can't hold the name \"" + name + "\"; pick another";
            throw new RefusedException("invalid_request", detail, Map.of());
        }
        String path = "/v1/" + of + "/" + encoded(name);
        return below.length == 0 ? path : path + "/" + String.join("/", below);
    }

    private static String query(Map<String, String> parameters) {
        StringBuilder query = new StringBuilder();
        parameters.forEach((name, value) ->
                query.append(query.isEmpty() ? "?" : "&").append(name).append("=").append(encoded(value)));
        return query.toString();
    }

    private static String encoded(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }

    /** Its host and its pid, as the other clients say it. */
    static String thisProcess() {
        return ThisProcess.NAME;
    }

    /** Looked up when it is first needed, as that may ask a name server. */
    private static final class ThisProcess {
        static final String NAME = name();

        private static String name() {
            long pid = ProcessHandle.current().pid();
            try {
                return InetAddress.getLocalHost().getHostName() + ":" + pid;
            } catch (UnknownHostException error) {
                return "pid " + pid;
            }
        }
    }
}
