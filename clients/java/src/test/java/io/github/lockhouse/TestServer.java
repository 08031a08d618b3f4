package io.github.lockhouse;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/** A real server with its own database. */
final class TestServer implements AutoCloseable {
    private final Path folder;
    private final Process process;
    private final String url;

    TestServer() throws IOException {
        folder = Files.createTempDirectory("lockhouse");
        String binary = System.getenv().getOrDefault("LOCKHOUSE_TEST_BINARY", "../../target/release/lockhouse");
        List<String> command = List.of(
                binary, "serve", "-o", "json", "--listen", "127.0.0.1:0", "--url", "sqlite:" + folder.resolve("db"));
        ProcessBuilder builder = new ProcessBuilder(command).redirectError(folder.resolve("log").toFile());
        builder.environment().put("RUST_LOG", "warn");
        process = builder.start();
        try (BufferedReader lines = process.inputReader()) {
            String line = lines.readLine();
            if (line == null) {
                throw new IOException("the server did not start: " + Files.readString(folder.resolve("log")));
            }
            url = Wire.of(Json.parse(line)).text("url");
        }
    }

    String url() {
        return url;
    }

    Lockhouse client() {
        return Lockhouse.builder().url(url).build();
    }

    @Override
    public void close() throws IOException {
        process.destroyForcibly().onExit().join();
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path it : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(it);
            }
        }
    }
}
