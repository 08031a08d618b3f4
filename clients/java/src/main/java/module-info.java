/** A distributed counting semaphore: the client of a Lockhouse server. */
module io.github.lockhouse {
    requires java.net.http;

    exports io.github.lockhouse;
}
