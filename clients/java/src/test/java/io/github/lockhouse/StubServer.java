package io.github.lockhouse;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.UnaryOperator;

/** Answers each call, of which it reads the head alone, with the text that a function makes of its method. */
final class StubServer implements AutoCloseable {
    private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final List<Socket> open = new CopyOnWriteArrayList<>();
    private final UnaryOperator<String> answers;

    StubServer(UnaryOperator<String> answers) throws IOException {
        this.answers = answers;
        Thread server = new Thread(this::serve);
        server.setDaemon(true);
        server.start();
    }

    /** A whole answer, after which the connection closes. */
    static String answer(String status, String body) {
        String head = "HTTP/1.1 " + status + "\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ";
        return head + body.getBytes(UTF_8).length + "\r\n\r\n" + body;
    }

    String url() {
        return "http://127.0.0.1:" + listener.getLocalPort();
    }

    private void serve() {
        try {
            while (true) {
                Socket socket = listener.accept();
                open.add(socket);
                socket.getOutputStream().write(answers.apply(methodOf(socket)).getBytes(UTF_8));
            }
        } catch (IOException closed) {
            // The test is over.
        }
    }

    private static String methodOf(Socket socket) throws IOException {
        InputStream input = socket.getInputStream();
        StringBuilder head = new StringBuilder();
        while (head.indexOf("\r\n\r\n") < 0) {
            head.append((char) input.read());
        }
        return head.substring(0, head.indexOf(" "));
    }

    @Override
    public void close() throws IOException {
        listener.close();
        for (Socket socket : open) {
            socket.close();
        }
    }
}
