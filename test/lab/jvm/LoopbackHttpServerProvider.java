package lab;

import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsServer;
import com.sun.net.httpserver.spi.HttpServerProvider;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;

/** Binds the JDK's HTTP server to loopback. Flink's Prometheus reporter uses that server and binds it to every address, with no option. */
public class LoopbackHttpServerProvider extends HttpServerProvider {
  private final HttpServerProvider jdk;

  public LoopbackHttpServerProvider() throws ReflectiveOperationException {
    jdk = (HttpServerProvider) Class.forName("sun.net.httpserver.DefaultHttpServerProvider").getDeclaredConstructor().newInstance();
  }

  @Override public HttpServer createHttpServer(InetSocketAddress address, int backlog) throws IOException {
    return jdk.createHttpServer(loopback(address), backlog);
  }

  @Override public HttpsServer createHttpsServer(InetSocketAddress address, int backlog) throws IOException {
    return jdk.createHttpsServer(loopback(address), backlog);
  }

  private static InetSocketAddress loopback(InetSocketAddress address) {
    boolean wildcard = address != null && address.getAddress() != null && address.getAddress().isAnyLocalAddress();
    return wildcard ? new InetSocketAddress(InetAddress.getLoopbackAddress(), address.getPort()) : address;
  }
}
