package io.github.lockhouse;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.Writer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class BuilderTest {
    @ParameterizedTest
    @ValueSource(strings = {"mysql://db/x", "lockhouse:7117", "http://", "http://ann:s3cr3t@host", "http://h/?a=1"})
    void anAddressThatIsNoServerIsRefused(String url) {
        Lockhouse.Builder builder = Lockhouse.builder().url(url);
        IllegalArgumentException error = assertThrows(IllegalArgumentException.class, builder::build);
        assertFalse(error.getMessage().contains("s3cr3t"));
    }

    @Test
    void aTokenThatIsMalformedIsNotShown() {
        Lockhouse.Builder builder = Lockhouse.builder().token("lh_s3cr3t\n");
        IllegalArgumentException error = assertThrows(IllegalArgumentException.class, builder::build);
        assertFalse(error.getMessage().contains("s3cr3t"));
    }

    @Test
    void aTokenOfTheEnvironmentThatIsMalformedIsNotShown() throws IOException {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        String classes = System.getProperty("java.class.path");
        ProcessBuilder builder = new ProcessBuilder(java, "-cp", classes, ContractRunner.class.getName());
        builder.environment().put("LOCKHOUSE_TOKEN", "lh_s3cr3t lh_s3cr3t");
        Process process = builder.redirectError(ProcessBuilder.Redirect.DISCARD).start();
        List<String> told = new ArrayList<>();
        // A client that could be made would show the token with its first call.
        String connect = "{\"id\":1,\"op\":\"connect\",\"url\":\"http://127.0.0.1:9\"}\n";
        String status = "{\"id\":2,\"op\":\"status\",\"semaphore\":\"s\"}\n";
        try (Writer commands = process.outputWriter()) {
            for (String command : List.of(connect, status)) {
                commands.write(command);
                commands.flush();
                told.add(process.inputReader().readLine());
            }
        }
        assertFalse(told.toString().contains("s3cr3t"), told.toString());
        assertTrue(told.get(0).contains("the token has characters that no token has"), told.get(0));
    }

    @ParameterizedTest
    @ValueSource(longs = {0, -1})
    void aTimeoutThatIsNotMoreThanZeroIsRefused(long seconds) {
        Lockhouse.Builder builder = Lockhouse.builder().timeout(Duration.ofSeconds(seconds));
        assertThrows(IllegalArgumentException.class, builder::build);
    }
}
