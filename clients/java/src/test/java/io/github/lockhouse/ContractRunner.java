package io.github.lockhouse;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.RecordComponent;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;

/** Does what the contract's harness says, by this client. See ../../contract/README.md. */
final class ContractRunner {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private Lockhouse lockhouse;
    private final Map<String, AutoCloseable> held = new ConcurrentHashMap<>();
    private final Map<String, CountDownLatch> leaves = new ConcurrentHashMap<>();
    private final Map<Long, Thread> threads = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        ContractRunner runner = new ContractRunner();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Wire command = Wire.of(Json.parse(line));
            if (command.text("op").equals("exit")) {
                runner.forget();
                return;
            }
            if (command.text("op").equals("busy")) {
                long end = Clock.in(Duration.ofMillis(command.number("ms")));
                while (end - Clock.now() > 0) {
                    Thread.onSpinWait();
                }
            }
            Thread thread = new Thread(() -> runner.answer(command));
            thread.setDaemon(true);
            runner.threads.put(command.number("id"), thread);
            thread.start();
        }
    }

    /** A program may drop what it holds before it exits. */
    private void forget() {
        lockhouse = null;
        held.clear();
        threads.clear();
        System.gc();
    }

    private void answer(Wire command) {
        Map<String, Object> answer = new HashMap<>(Map.of("id", command.number("id")));
        try {
            Object told = operate(command);
            answer.put("ok", told == null ? Map.of() : told);
        } catch (LockhouseException error) {
            answer.put("error", Map.of("code", error.code(), "detail", error.getMessage()));
        } catch (InterruptedException error) {
            answer.put("error", Map.of("code", "cancelled"));
        } catch (Exception error) {
            error.printStackTrace();
            answer.put("error", Map.of("code", error.getClass().getSimpleName(), "detail", error.toString()));
        }
        say(answer);
    }

    private Object operate(Wire c) throws IOException, InterruptedException {
        String semaphore = c.text("semaphore");
        return switch (c.text("op")) {
            case "connect" -> connect(c);
            case "overhead" -> new ContractOverhead(lockhouse, c.text("url"), semaphore).measure(c.count("times"));
            case "acquire" -> acquire(c);
            case "block" -> block(c);
            case "leave" -> {
                leaves.get(c.text("permit")).countDown();
                yield null;
            }
            case "release" -> Map.of("released", ((Permit) held.get(c.text("permit"))).release());
            case "is_lost" -> isLost(held.get(c.text("permit")));
            case "session" -> session(c);
            case "goodbye" -> Map.of("released", ((Session) held.get(c.text("session"))).goodbye());
            case "define" -> wire(lockhouse.define(semaphore, definition(c)));
            case "define_if_missing" -> wire(lockhouse.defineIfMissing(semaphore, c.count("capacity")));
            case "resize" -> wire(lockhouse.resize(semaphore, c.count("capacity")));
            case "status" -> wire(lockhouse.status(semaphore));
            case "delete" -> {
                lockhouse.delete(semaphore);
                yield null;
            }
            case "list" -> Map.of("semaphores", wire(c.maybeText("prefix")
                    .map(lockhouse::semaphores).orElseGet(lockhouse::semaphores)));
            case "holders" -> Map.of("requests", wire(lockhouse.holders(semaphore)));
            case "requests" -> Map.of("requests", wire(c.maybeText("owner")
                    .map(lockhouse::requestsOf).orElseGet(() -> lockhouse.requestsOn(semaphore))));
            case "history" -> Map.of("changes", wire(lockhouse.history(semaphore)));
            case "waiting" -> Map.of("waiting", wire(lockhouse.waiting(semaphore)));
            case "find" -> wire(lockhouse.find(c.text("external_id")));
            case "force" -> Map.of("released", lockhouse.force(c.text("external_id"), c.text("by")));
            case "set_template" -> wire(template(c));
            case "templates" -> Map.of("templates", wire(lockhouse.templates()));
            case "delete_template" -> {
                lockhouse.deleteTemplate(c.text("pattern"));
                yield null;
            }
            case "cancel" -> {
                threads.get(c.number("target")).interrupt();
                yield null;
            }
            case "busy" -> null;
            default -> throw new IllegalArgumentException("there is no operation " + c.text("op"));
        };
    }

    private Object connect(Wire c) {
        Lockhouse.Builder builder = Lockhouse.builder().url(c.text("url"));
        c.maybeText("token").ifPresent(builder::token);
        c.maybeText("ca_file").map(Path::of).ifPresent(builder::caFile);
        c.duration("timeout_ms").ifPresent(builder::timeout);
        lockhouse = builder.build();
        return null;
    }

    private Object acquire(Wire c) throws InterruptedException {
        Permit permit = c.text("semaphore") == null ? request(c).acquire() : onFirstUse(c).acquire();
        holds(c.text("as"), permit);
        Map<String, Object> fences = new HashMap<>();
        Map<String, Object> slots = new HashMap<>();
        for (HeldPermit it : permit.request().permits()) {
            fences.put(it.semaphore(), it.fence());
            slots.put(it.semaphore(), it.slots());
        }
        return Map.of("external_id", permit.externalId(), "fences", fences, "slots", slots);
    }

    private Semaphore onFirstUse(Wire c) {
        Semaphore semaphore = lockhouse.semaphore(c.text("semaphore"));
        return c.members().containsKey("capacity") ? semaphore.orCreate(c.count("capacity")) : semaphore;
    }

    private Object block(Wire c) throws InterruptedException {
        CountDownLatch left = new CountDownLatch(1);
        leaves.put(c.text("as"), left);
        try (Permit permit = request(c).acquire()) {
            holds(c.text("as"), permit);
            say(Map.of("event", "entered", "permit", c.text("as")));
            left.await();
        }
        return null;
    }

    private Template template(Wire c) {
        boolean isIdle = c.members().containsKey("idle_ms");
        return isIdle
                ? lockhouse.setTemplate(c.text("pattern"), c.count("capacity"), Duration.ofMillis(c.number("idle_ms")))
                : lockhouse.setTemplate(c.text("pattern"), c.count("capacity"));
    }

    private Request request(Wire c) {
        Request request = c.maybeText("session")
                .map(it -> ((Session) held.get(it)).request()).orElseGet(lockhouse::request);
        Wire.of(c.members().get("permits")).members()
                .forEach((name, count) -> request.permits(name, ((Number) count).intValue()));
        c.maybeText("external_id").ifPresent(request::externalId);
        c.maybeText("owner").ifPresent(request::owner);
        c.duration("wait_ms").ifPresent(request::atMost);
        if (c.members().containsKey("ttl_ms")) {
            c.duration("ttl_ms").ifPresentOrElse(request::ttl, request::withoutTtl);
        }
        return c.members().containsKey("priority") ? request.priority(c.count("priority")) : request;
    }

    private Object session(Wire c) {
        Session session = lockhouse.session(c.text("owner"), Duration.ofMillis(c.number("ttl_ms")));
        held.put(c.text("as"), session);
        session.onLost(lost -> say(Map.of("event", "lost", "permit", c.text("as"), "reason", lost.reason())));
        return null;
    }

    private void holds(String name, Permit permit) {
        held.put(name, permit);
        permit.onLost(lost -> say(Map.of("event", "lost", "permit", name, "reason", lost.reason())));
    }

    private static Object isLost(AutoCloseable it) {
        if (it instanceof Permit permit) {
            return permit.lost()
                    .<Object>map(lost -> Map.of("lost", true, "reason", lost.reason()))
                    .orElse(Map.of("lost", false));
        }
        return Map.of("lost", ((Session) it).isLost());
    }

    private static Definition definition(Wire c) {
        Definition definition = Definition.of(c.count("capacity"));
        if (c.is("slots")) {
            definition = definition.withSlots();
        }
        if (c.members().containsKey("expected_capacity")) {
            definition = definition.withExpectedCapacity(c.count("expected_capacity"));
        }
        return c.text("note") == null ? definition : definition.withNote(c.text("note"));
    }

    /** A record with the names of HTTP. */
    private static Object wire(Object value) {
        if (value instanceof Optional<?> optional) {
            return optional.map(it -> wire(it)).orElse(null);
        }
        if (value instanceof List<?> items) {
            return items.stream().map(it -> wire(it)).toList();
        }
        if (!(value instanceof Record)) {
            return value;
        }
        Map<String, Object> members = new LinkedHashMap<>();
        try {
            for (RecordComponent it : value.getClass().getRecordComponents()) {
                String name = it.getName().replaceAll("([A-Z])", "_$1").toLowerCase();
                members.put(name.equals("ttl") ? "ttl_ms" : name, wire(it.getAccessor().invoke(value)));
            }
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
        return members;
    }

    private static synchronized void say(Map<String, Object> message) {
        OUT.println(Json.write(message));
    }
}
