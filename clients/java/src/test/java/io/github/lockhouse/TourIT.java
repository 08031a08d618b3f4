package io.github.lockhouse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.jar.JarFile;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The jar as it is published, and the README's tour, as printed, with nothing else on its path. */
class TourIT {
    private static final Path JAR = Path.of("target", "lockhouse-" + Lockhouse.VERSION + ".jar").toAbsolutePath();

    @Test
    void theTourRunsWithTheJarAlone(@TempDir Path folder) throws IOException, InterruptedException {
        Matcher tour = Pattern.compile("^```java\n(.*?)^```", Pattern.DOTALL | Pattern.MULTILINE)
                .matcher(Files.readString(Path.of("README.md")));
        assertTrue(tour.find(), "the README has no tour");
        Files.writeString(folder.resolve("Tour.java"), tour.group(1));
        String path = JAR + ":" + folder;
        try (TestServer server = new TestServer()) {
            run(folder, server, "javac", "-Xlint:all", "-Werror", "-cp", JAR.toString(), "Tour.java");
            String told = run(folder, server, "java", "-cp", path, "Tour");
            for (String line : List.of(
                    "one of ten, fence 1", "both, fences 1 1", "in use 3", "exceeds_capacity")) {
                assertTrue(told.contains(line), told);
            }
        }
    }

    @Test
    void theJarIsAModuleWithItsPom() throws IOException {
        try (JarFile jar = new JarFile(JAR.toFile())) {
            assertNotNull(jar.getEntry("module-info.class"));
            assertNotNull(jar.getEntry("META-INF/maven/io.github.lockhouse/lockhouse/pom.xml"));
            assertTrue(jar.stream().noneMatch(it -> it.getName().contains("Test")));
        }
    }

    private static String run(Path folder, TestServer server, String tool, String... arguments)
            throws IOException, InterruptedException {
        List<String> command = new java.util.ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", tool).toString()));
        command.addAll(List.of(arguments));
        ProcessBuilder builder = new ProcessBuilder(command).directory(folder.toFile()).redirectErrorStream(true);
        builder.environment().put("LOCKHOUSE_URL", server.url());
        Process process = builder.start();
        String told = new String(process.getInputStream().readAllBytes());
        assertEquals(0, process.waitFor(), told);
        return told;
    }
}
