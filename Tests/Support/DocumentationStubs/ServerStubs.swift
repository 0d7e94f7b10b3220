// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation

// The declarations of packages for servers that the snippets in the documentation use, written from their documentation. The snippets are
// compiled against them, because this package doesn't depend on other packages.

// swift-log

public struct Logger: Sendable {
    public enum Level: String, Sendable, Comparable {
        case trace, debug, info, notice, warning, error, critical

        private var rank: Int { [.trace, .debug, .info, .notice, .warning, .error, .critical].firstIndex(of: self) ?? 0 }

        public static func < (left: Self, right: Self) -> Bool { left.rank < right.rank }
    }

    public struct Message: ExpressibleByStringInterpolation, Sendable {
        public let text: String
        public init(stringLiteral value: String) { self.text = value }
    }

    public struct MetadataValue: ExpressibleByStringInterpolation, Sendable {
        public let text: String
        public init(stringLiteral value: String) { self.text = value }
    }

    public typealias Metadata = [String: MetadataValue]

    public var logLevel = Level.info
    private let write: @Sendable (Level, String, [String: String]) -> Void

    public init(label: String) { self.init { _, _, _ in } }

    /// Not in swift-log: a logger whose messages a test receives.
    public init(_ write: @escaping @Sendable (Level, String, [String: String]) -> Void) { self.write = write }

    public func log(level: Level, _ message: @autoclosure () -> Message, metadata: @autoclosure () -> Metadata? = nil) {
        guard level >= self.logLevel else { return }
        self.write(level, message().text, (metadata() ?? [:]).mapValues(\.text))
    }
}

// swift-metrics

public final class Meter: Sendable {
    public init(label: String, dimensions: [(String, String)] = []) {}
    public func set(_ value: some BinaryInteger) {}
}

public final class Timer: Sendable {
    public init(label: String, dimensions: [(String, String)] = []) {}
    public func record(duration: Duration) {}
}

// swift-service-lifecycle

public protocol Service: Sendable {
    func run() async throws
}

public struct UnixSignal: Sendable {
    public static let sigterm = UnixSignal()
    public static let sigint = UnixSignal()
}

public actor ServiceGroup {
    private let services: [any Service]

    public init(
        services: [any Service], gracefulShutdownSignals: [UnixSignal] = [], cancellationSignals: [UnixSignal] = [], logger: Logger
    ) {
        self.services = services
    }

    public func run() async throws { for service in self.services { try await service.run() } }
}

public func withGracefulShutdownHandler<Result>(
    operation: () async throws -> Result, onGracefulShutdown handler: @escaping @Sendable () -> Void
) async rethrows -> Result {
    try await operation()
}

// Hummingbird

public struct HTTPField: Sendable {
    public struct Name: Sendable {
        public init?(_ name: String) {}
    }
}

public struct HTTPFields: Sendable {
    public subscript(_ name: HTTPField.Name) -> String? { nil }
}

public struct ByteBuffer: Sendable {
    public var readableBytesView: [UInt8] { [] }
}

public struct RequestBody: Sendable {
    public func collect(upTo maxSize: Int) async throws -> ByteBuffer { ByteBuffer() }
}

public struct Request: Sendable {
    public var headers: HTTPFields { HTTPFields() }
    public var body: RequestBody { RequestBody() }

    public func decode<Value: Decodable>(as type: Value.Type, context: some RequestContext) async throws -> Value {
        throw HTTPError(.forbidden)
    }
}

public struct HTTPResponse: Sendable {
    public enum Status: Sendable { case ok, accepted, unauthorized, forbidden }
}

public struct HTTPError: Error {
    public init(_ status: HTTPResponse.Status) {}
}

public protocol RequestContext: Sendable {}
public struct BasicRequestContext: RequestContext {}

public protocol ResponseGenerator {}
public protocol ResponseEncodable: Encodable, ResponseGenerator {}
extension HTTPResponse.Status: ResponseGenerator {}

public struct URLEncodedFormDecoder: Sendable {
    public init() {}
    public func decode<Value: Decodable>(_ type: Value.Type, from request: Request, context: some RequestContext) async throws -> Value {
        throw HTTPError(.forbidden)
    }
}

public final class Router<Context: RequestContext> {
    public init(context: Context.Type = BasicRequestContext.self) {}

    @discardableResult
    public func post<Output: ResponseGenerator>(
        _ path: String, use handler: @escaping @Sendable (Request, Context) async throws -> Output
    ) -> Self { self }
}
