package io.github.lockhouse;

import io.github.lockhouse.Caller.Asked;
import io.github.lockhouse.Caller.Call;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Consumer;

/**
 * Builds an all-or-nothing request for permits on one or more semaphores.
 *
 * <pre>{@code
 * try (var permit = lockhouse.request().permits("gpu", 1).permits("network", 2).acquire()) { … }
 * }</pre>
 *
 * <p>The methods change this object and return it, so it is for one thread. Without an {@link #externalId} it can be used
 * again: each use is another grant.
 */
public final class Request {
    /** How long a hold outlives its last renewal, unless {@link #ttl} says otherwise. */
    public static final Duration DEFAULT_TTL = Duration.ofSeconds(30);

    private final Lockhouse lockhouse;
    private final Hold session;
    private final Map<String, Integer> permits = new LinkedHashMap<>();
    private String externalId;
    private String owner;
    private Duration ttl = DEFAULT_TTL;
    private Duration longest;
    private int priority;

    Request(Lockhouse lockhouse) {
        this(lockhouse, null, null);
    }

    /** The owner whose session keeps it; it then has no time to live. */
    Request(Lockhouse lockhouse, Hold session, String owner) {
        this.lockhouse = lockhouse;
        this.session = session;
        this.owner = owner;
        if (session != null) {
            ttl = null;
        }
    }

    /** Asks for {@code count} permits of a semaphore. */
    public Request permits(String semaphore, int count) {
        permits.put(semaphore, count);
        return this;
    }

    /**
     * Identifies the request, so that it can be repeated: every repeat gets the one grant. Callers that use one id hold it
     * together, and the first release ends it for all. An id that has ended is refused with {@link EndedException}. Unless
     * given, each use has a fresh id.
     */
    public Request externalId(String id) {
        externalId = id;
        return this;
    }

    /** Free text that listings show. A session's requests have its owner. */
    public Request owner(String name) {
        if (session == null) {
            owner = name;
        }
        return this;
    }

    /**
     * How long the hold outlives its last renewal, from 1 ms to 366 days; {@link #acquire} is refused with {@code
     * invalid_request} otherwise. A session's requests last as long as it does.
     */
    public Request ttl(Duration duration) {
        if (session == null) {
            ttl = duration;
        }
        return this;
    }

    /**
     * The hold is not renewed. It lasts until it is released, even if this process dies, or until the server ends it as
     * stale, by default after 24 hours.
     */
    public Request withoutTtl() {
        return ttl(null);
    }

    /** How long {@link #acquire} waits at most; without it, as long as it takes. */
    public Request atMost(Duration wait) {
        longest = wait;
        return this;
    }

    /** From -100 to 100. A higher one is served first; each step is worth ten seconds of waiting. */
    public Request priority(int value) {
        priority = value;
        return this;
    }

    /**
     * Waits for the permits and takes them, all at once.
     *
     * @throws ExhaustedException if there was no room in time
     * @throws EndedException if the id, or the session, has ended
     * @throws UnavailableException if no server answered within the client's timeout, beyond the wait
     * @throws InterruptedException if the thread is interrupted; it then leaves the line
     */
    public Permit acquire() throws InterruptedException {
        return acquire(longest);
    }

    /** Takes the permits if there is room now and nobody waits for it; otherwise returns empty. */
    public Optional<Permit> tryAcquire() throws InterruptedException {
        try {
            return Optional.of(acquire(Duration.ZERO));
        } catch (ExhaustedException error) {
            return Optional.empty();
        }
    }

    private Permit acquire(Duration atMost) throws InterruptedException {
        String id = externalId == null ? UUID.randomUUID().toString() : externalId;
        Release release = new Release(lockhouse, id, owner == null ? Lockhouse.thisProcess() : owner, externalId == null);
        try {
            return grant(id, release, atMost);
        } catch (RefusedException error) {
            if (error.maybeApplied() || error.code().equals("session_ended")) {
                abandon(release);
            }
            throw error;
        } catch (LockhouseException | InterruptedException error) {
            abandon(release);
            throw error;
        }
    }

    /** It may have been granted. Only this caller knows an id that this package made, so nobody else could release it. */
    private void abandon(Release release) {
        if (release.isOurs()) {
            release.inBackground(ttl == null ? 0 : Clock.nanos(ttl), true);
        }
    }

    private Permit grant(String id, Release release, Duration atMost) throws InterruptedException {
        if (session != null && session.lost() != null) {
            throw sessionEnded();
        }
        String path = Lockhouse.path("requests", id);
        Caller caller = lockhouse.caller();
        long askedAt = Clock.now();
        long until = askedAt + (atMost == null ? Clock.FOREVER_NANOS : Clock.nanos(atMost));
        Asked asked = granted(new Wait(caller, path, body(), until, lockhouse.timeoutNanos()));
        RequestStatus request = lockhouse.read(asked, RequestStatus::of);
        if (request.ttl().isEmpty()) {
            return new Permit(lockhouse, request, new Hold("request " + id, session), release);
        }
        // From when the time to live surely runs: a grant of another moment is renewed first.
        Duration lasts = request.ttl().get();
        long sentAt = askedAt;
        if (asked.status() != 201 || Clock.now() - askedAt > Clock.nanos(lasts) / 6) {
            lasts = ttl != null && ttl.compareTo(lasts) > 0 ? ttl : lasts;
            sentAt = Clock.now();
            try {
                lockhouse.renew(id, lasts);
            } catch (LockhouseException error) {
                throw error.withMaybeApplied(true); // The ask was granted.
            }
        }
        Call renewal = Call.of("POST", path + "/renew", Map.of("ttl_ms", Clock.millis(lasts)));
        Hold hold = new Hold("request " + id, caller, renewal, lasts, sentAt);
        return new Permit(lockhouse, request, hold, release);
    }

    /** The answer to a wait that an interrupt, or the loss of the session, ends. */
    private Asked granted(Wait wait) throws InterruptedException {
        if (session == null) {
            return wait.granted();
        }
        Consumer<LostException> onLost = lost -> wait.cancel(sessionEnded());
        session.onLost(onLost);
        try {
            return wait.grantedUnlessCancelled();
        } finally {
            session.forget(onLost);
        }
    }

    private Map<String, Object> body() {
        Map<String, Object> body = new HashMap<>();
        body.put("permits", permits.entrySet().stream()
                .map(it -> Map.of("semaphore", it.getKey(), "count", it.getValue()))
                .toList());
        if (owner != null) {
            body.put("owner", owner);
        }
        if (ttl != null) {
            body.put("ttl_ms", Clock.millis(ttl));
        }
        if (priority != 0) {
            body.put("priority", priority);
        }
        return body;
    }

    private EndedException sessionEnded() {
        String detail = "the session of \"" + owner + "\" has ended; begin another";
        return new EndedException("session_ended", detail, Map.of());
    }
}
