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

/** The artifact as published: its contents, and the README's tour, as printed, in a project that depends on it. */
class TourIT {
    private static final Path REPOSITORY = Path.of("target", "repository").toAbsolutePath();
    private static final Path ARTIFACT = Path.of("io", "github", "lockhouse", "lockhouse", Lockhouse.VERSION);
    private static final String JAR = "lockhouse-" + Lockhouse.VERSION;

    /** A project with nothing but the README's dependency. The plugins come from what this build has downloaded. */
    private static final String PROJECT =
            """
            <project xmlns="http://maven.apache.org/POM/4.0.0">
              <modelVersion>4.0.0</modelVersion>
              <groupId>tour</groupId>
              <artifactId>tour</artifactId>
              <version>1</version>
              <properties>
                <maven.compiler.release>17</maven.compiler.release>
                <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
              </properties>
              <repositories>
                <repository><id>folder</id><url>%s</url></repository>
              </repositories>
              <dependencies>
            %s
              </dependencies>
              <build>
                <plugins>
                  <plugin><artifactId>maven-resources-plugin</artifactId><version>3.3.1</version></plugin>
                  <plugin><artifactId>maven-compiler-plugin</artifactId><version>3.14.0</version></plugin>
                </plugins>
              </build>
            </project>
            """;

    private static final String SETTINGS =
            """
            <settings>
              <mirrors>
                <mirror><id>downloaded</id><mirrorOf>central</mirrorOf><url>%s</url></mirror>
              </mirrors>
            </settings>
            """;

    @Test
    void theTourRunsInAProjectThatDependsOnTheArtifact(@TempDir Path folder) throws IOException, InterruptedException {
        String downloaded = System.getProperty("localRepository");
        Path sources = Files.createDirectories(folder.resolve("src/main/java"));
        Files.writeString(sources.resolve("Tour.java"), block("java"));
        Files.writeString(folder.resolve("pom.xml"), PROJECT.formatted(REPOSITORY.toUri(), block("xml")));
        Files.writeString(folder.resolve("settings.xml"), SETTINGS.formatted(Path.of(downloaded).toUri()));
        Path fresh = folder.resolve("repository");
        try (TestServer server = new TestServer()) {
            run(folder, server, "mvn", "-q", "-B", "-s", "settings.xml", "-Dmaven.repo.local=" + fresh, "compile");
            String path = fresh.resolve(ARTIFACT).resolve(JAR + ".jar") + ":target/classes";
            String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
            String told = run(folder, server, java, "-cp", path, "Tour");
            for (String line : List.of(
                    "one of ten, fence 1", "both, fences 1 1", "in use 3", "exceeds_capacity")) {
                assertTrue(told.contains(line), told);
            }
        }
    }

    @Test
    void theJarIsAModuleWithItsPom() throws IOException {
        try (JarFile jar = new JarFile(published(".jar"))) {
            assertNotNull(jar.getEntry("module-info.class"));
            assertNotNull(jar.getEntry("META-INF/maven/io.github.lockhouse/lockhouse/pom.xml"));
            assertTrue(jar.stream().noneMatch(it -> it.getName().contains("Test")));
        }
    }

    @Test
    void sourcesAndDocumentationArePublishedWithIt() throws IOException {
        try (JarFile sources = new JarFile(published("-sources.jar"));
                JarFile documentation = new JarFile(published("-javadoc.jar"))) {
            assertNotNull(sources.getEntry("io/github/lockhouse/Lockhouse.java"));
            assertTrue(documentation.stream().anyMatch(it -> it.getName().endsWith("io/github/lockhouse/Lockhouse.html")));
        }
    }

    private static String published(String ending) {
        return REPOSITORY.resolve(ARTIFACT).resolve(JAR + ending).toString();
    }

    /** The README's first block of that language. */
    private static String block(String language) throws IOException {
        Matcher block = Pattern.compile("^```" + language + "\n(.*?)^```", Pattern.DOTALL | Pattern.MULTILINE)
                .matcher(Files.readString(Path.of("README.md")));
        assertTrue(block.find(), "the README has no block of " + language);
        return block.group(1);
    }

    private static String run(Path folder, TestServer server, String... command)
            throws IOException, InterruptedException {
        ProcessBuilder builder = new ProcessBuilder(command).directory(folder.toFile()).redirectErrorStream(true);
        builder.environment().put("LOCKHOUSE_URL", server.url());
        Process process = builder.start();
        String told = new String(process.getInputStream().readAllBytes());
        assertEquals(0, process.waitFor(), told);
        return told;
    }
}
