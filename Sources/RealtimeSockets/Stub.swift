public import RealtimeCore
public final class SocketListener: Listener {
  public init(host: String = "127.0.0.1", port: Int = 0, tls: TLSServerConfiguration? = nil) {}
  public func start(_ handler: any ListenerHandler) async throws(TransportError) -> ListenerAddress { throw TransportError(.system, "stub") }
  public func stop() async {}
}
