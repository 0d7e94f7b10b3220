public import Foundation
public import RealtimeCore

/// A client for HTTP requests, such as the negotiation.
public protocol HttpClient: Sendable {
    /// Sends a request.
    ///
    /// - Parameter request: The request.
    /// - Returns: The body and the status of the response, also if the status says that the request failed.
    /// - Throws: Any error if there is no response.
    func send(request: HttpRequest) async throws -> (StringOrData, HttpResponse)
}

/// The method of a request.
public enum HttpMethod: String, Sendable {
    case GET, PUT, PATCH, POST, DELETE
}

/// The kind of a transferred content.
public enum TransferFormat: Int, Codable, Sendable {
    case text = 1
    case binary = 2
}

/// A text or data.
public enum StringOrData: Sendable, Equatable {
    case string(String)
    case data(Data)

    var bytes: [UInt8] {
        switch self {
        case .string(let string): Array(string.utf8)
        case .data(let data): Array(data)
        }
    }
}

/// A request.
public struct HttpRequest: Sendable {
    /// The method.
    public var method: HttpMethod
    /// The absolute URL.
    public var url: String
    /// The body, or `nil` for none.
    public var content: StringOrData?
    /// The expected kind of the response's body.
    public var responseType: TransferFormat
    /// The header fields.
    public var headers: [String: String]
    /// The time limit in seconds.
    public var timeout: TimeInterval

    /// Creates a request.
    ///
    /// - Parameters:
    ///   - method: The method.
    ///   - url: The absolute URL.
    ///   - content: The body, or `nil` for none.
    ///   - responseType: The expected kind of the response's body; `nil` for text.
    ///   - headers: The header fields.
    ///   - timeout: The time limit in seconds; `nil` for 100.
    public init(
        method: HttpMethod, url: String, content: StringOrData? = nil, responseType: TransferFormat? = nil,
        headers: [String: String]? = nil, timeout: TimeInterval? = nil
    ) {
        self.method = method
        self.url = url
        self.content = content
        self.responseType = responseType ?? .text
        self.headers = headers ?? [:]
        self.timeout = timeout ?? 100
    }
}

/// The head of a response.
public struct HttpResponse: Sendable {
    /// The status, such as 200.
    public let statusCode: Int
    /// The header fields. Cookies are sent to the server again with the requests of the transport, as load balancers require.
    public let headers: HTTPHeaders

    /// Creates a response, in an implementation of ``HttpClient``.
    public init(statusCode: Int, headers: HTTPHeaders = [:]) {
        self.statusCode = statusCode
        self.headers = headers
    }
}

/// Sends the requests of a connection with the application's client.
struct HttpClientTransport: HTTPTransport {
    private let client: any HttpClient

    init(_ client: any HttpClient) {
        self.client = client
    }

    func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse {
        guard let method = HttpMethod(rawValue: request.method) else {
            throw TransportError(.unsupported, "An HttpClient can't send a request with the method \(request.method).")
        }
        if request.headers["Accept"] == "text/event-stream" {
            let message =
                "An HttpClient returns whole responses, and can't stream Server-Sent Events. Allow another transport, or don't set it."
            throw TransportError(.unsupported, message)
        }
        var headers: [String: String] = [:]
        for field in request.headers { headers[field.name] = field.value }
        // The description of an endpoint is without its query.
        let query = request.endpoint.query.map { "?\($0)" } ?? ""
        let converted = HttpRequest(
            method: method, url: "\(request.endpoint)\(query)", content: request.body.isEmpty ? nil : .data(Data(request.body)),
            headers: headers, timeout: request.idleTimeout / .seconds(1))
        do {
            let (body, response) = try await self.client.send(request: converted)
            return HTTPStreamedResponse(
                HTTPResponse(HTTPResponseHead(status: response.statusCode, headers: response.headers), body: body.bytes))
        } catch is CancellationError {
            throw TransportError(.cancelled, "The request was cancelled with its task.")
        } catch {
            throw TransportError(.closed, "The HttpClient threw an error of the type \(type(of: error)).", cause: error)
        }
    }
}
