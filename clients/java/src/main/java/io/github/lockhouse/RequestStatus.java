package io.github.lockhouse;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;

/**
 * A request that was granted, held or ended. {@code state} is {@code acquired} while it is held, then {@code released}.
 * {@code endReason} is {@code released}, {@code expired}, {@code owner_dead}, {@code stale} or {@code forced}. {@code endedBy}
 * is the caller that released it or ended it by force.
 */
public record RequestStatus(
        String externalId,
        String state,
        Optional<String> endReason,
        Optional<String> endedBy,
        Optional<String> owner,
        List<HeldPermit> permits,
        Optional<Duration> ttl,
        Optional<Instant> expiresAt,
        Instant createdAt,
        Optional<Instant> releasedAt) {
    static RequestStatus of(Object json) {
        Wire wire = Wire.of(json);
        return new RequestStatus(
                wire.text("external_id"),
                wire.text("state"),
                wire.maybeText("end_reason"),
                wire.maybeText("ended_by"),
                wire.maybeText("owner"),
                wire.list("permits", HeldPermit::of),
                wire.duration("ttl_ms"),
                wire.maybeTime("expires_at"),
                wire.time("created_at"),
                wire.maybeTime("released_at"));
    }
}
