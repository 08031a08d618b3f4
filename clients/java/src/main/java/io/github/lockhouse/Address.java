package io.github.lockhouse;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Where a server is, and whom a client trusts there. */
final class Address {
    private Address() {}

    /** Without what is in it, as an error must not show a password. */
    static String checked(String url) {
        URI uri;
        try {
            uri = URI.create(url);
        } catch (IllegalArgumentException error) {
            throw notAServer();
        }
        boolean isHttp = "http".equals(uri.getScheme()) || "https".equals(uri.getScheme());
        if (!isHttp || uri.getAuthority() == null) {
            throw notAServer();
        }
        if (uri.getAuthority().contains("@")) {
            throw new IllegalArgumentException("the URL must not hold a user or a password; set the token");
        }
        if (uri.getHost() == null || uri.getQuery() != null || uri.getFragment() != null) {
            throw notAServer();
        }
        return url.replaceAll("/+$", "");
    }

    private static IllegalArgumentException notAServer() {
        return new IllegalArgumentException("the URL of a server is http://HOST:PORT or https://HOST:PORT");
    }

    /** Trusts the authorities of a PEM file; the machine's, as null, if there is none. */
    static SSLContext trusting(Path caFile) {
        if (caFile == null) {
            return null;
        }
        try (InputStream pem = Files.newInputStream(caFile)) {
            KeyStore authorities = KeyStore.getInstance(KeyStore.getDefaultType());
            authorities.load(null, null);
            int number = 0;
            for (Certificate it : CertificateFactory.getInstance("X.509").generateCertificates(pem)) {
                authorities.setCertificateEntry("authority-" + number++, it);
            }
            TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(authorities);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, trust.getTrustManagers(), null);
            return context;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (GeneralSecurityException error) {
            throw new IllegalArgumentException(caFile + " has no certificates in PEM", error);
        }
    }
}
