package io.github.lockhouse;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.http.HttpResponse.BodyHandler;
import java.net.http.HttpResponse.BodySubscriber;
import java.net.http.HttpTimeoutException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;
import java.util.concurrent.Future;

/** The text of an answer. The timeout of {@code HttpRequest} is only for the head, so the body has the rest of it here. */
final class Body implements BodySubscriber<String> {
    private static final int MOST_BYTES = 16 * 1024 * 1024;

    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    private final CompletableFuture<String> text = new CompletableFuture<>();
    private final long deadline;
    private Flow.Subscription subscription;

    private Body(long deadline) {
        this.deadline = deadline;
    }

    static BodyHandler<String> until(long deadline) {
        return head -> new Body(deadline);
    }

    @Override
    public void onSubscribe(Flow.Subscription subscription) {
        this.subscription = subscription;
        Future<?> late = Clock.at(deadline, () -> fail(new HttpTimeoutException("the answer did not end in time")));
        text.whenComplete((read, error) -> late.cancel(false));
        subscription.request(Long.MAX_VALUE);
    }

    @Override
    public void onNext(List<ByteBuffer> parts) {
        for (ByteBuffer part : parts) {
            byte[] read = new byte[part.remaining()];
            part.get(read);
            bytes.writeBytes(read);
        }
        if (bytes.size() > MOST_BYTES) {
            fail(new IOException("the answer is longer than 16 MiB"));
        }
    }

    private void fail(IOException why) {
        if (text.completeExceptionally(why)) {
            subscription.cancel();
        }
    }

    @Override
    public void onError(Throwable error) {
        text.completeExceptionally(error);
    }

    @Override
    public void onComplete() {
        text.complete(bytes.toString(UTF_8));
    }

    @Override
    public CompletionStage<String> getBody() {
        return text;
    }
}
