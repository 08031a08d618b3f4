package io.github.lockhouse;

import java.util.concurrent.TimeUnit;

/** How to release one request. {@code isOurs}: this package made its id, so nobody else can release it. */
record Release(Lockhouse lockhouse, String externalId, String by, boolean isOurs) {
    private static final long AGAIN_AFTER_MS = 2_000;
    private static final long COMES_WITHIN_MS = 1_000;

    boolean now() {
        return lockhouse.end(externalId, by, false);
    }

    /**
     * Tries until it is released, or {@code ttl} nanoseconds have passed; 0 is for ever. {@code mayComeYet}: the ask may
     * reach the server only after this.
     */
    void inBackground(long ttl, boolean mayComeYet) {
        long endsAt = Clock.now() + (ttl == 0 ? Clock.FOREVER_NANOS : ttl);
        lockhouse.inBackground(() -> untilReleased(endsAt, mayComeYet));
    }

    private void untilReleased(long endsAt, boolean mayComeYet) throws InterruptedException {
        boolean mayCome = mayComeYet;
        while (true) {
            try {
                now();
                return;
            } catch (RefusedException error) {
                if (!mayCome) {
                    return;
                }
                mayCome = false;
                TimeUnit.MILLISECONDS.sleep(COMES_WITHIN_MS);
                continue;
            } catch (LockhouseException error) {
                if (!isOurs) {
                    return;
                }
            }
            TimeUnit.MILLISECONDS.sleep(AGAIN_AFTER_MS);
            if (endsAt - Clock.now() <= 0) {
                return;
            }
        }
    }
}
