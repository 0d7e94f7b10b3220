import PusherWire
import RealtimeCore
import RealtimeEncoding
import RealtimeCoding
import RealtimeSystem

/// The service's HTTP API: parses requests, and creates responses. ``PusherServerMachine`` performs the calls.
enum PusherServerAPI {
    /// A response with the status of an error.
    struct Rejection: Error, Hashable {
        var status: Int
        var message: String
        /// The method of the path, if the request has another one.
        var allowedMethod: String?

        init(_ status: Int, _ message: String, allowedMethod: String? = nil) {
            self.status = status
            self.message = Excerpt.message(message)
            self.allowedMethod = allowedMethod
        }
    }

    /// A valid request.
    enum Call: Hashable {
        case health
        case publish(Publication)
        case publishBatch([Publication])
        /// The channels whose names begin with the prefix.
        case channels(prefix: String, Set<Attribute>)
        case channel(String, Set<Attribute>)
        case users(channel: String)
        case terminateConnections(userID: String)
    }

    struct Publication: Hashable {
        var event: String
        var channels: [String]
        var data: String
        var except: String?
        var tags: EventTags?
        var attributes: Set<Attribute> = []
    }

    /// An attribute of a channel.
    enum Attribute: String {
        case userCount = "user_count"
        case subscriptionCount = "subscription_count"
        case cache

        /// Whether channels of a kind have the attribute.
        func isAvailable(for kind: PusherChannelKind) -> Bool {
            switch self {
            case .userCount: kind.isPresence
            case .subscriptionCount: !kind.isPresence
            case .cache: kind.isCache
            }
        }
    }

    // MARK: Responses

    static let healthy = HTTPResponse(status: 200, text: "OK\n")
    static let unavailable = Self.error(Rejection(503, "The server has stopped."))

    static func success(_ json: JSONObject) -> HTTPResponse {
        HTTPResponse(status: 200, headers: ["Content-Type": "application/json"], text: JSONValue.object(json).description)
    }

    static func error(_ error: Rejection) -> HTTPResponse {
        var headers: HTTPHeaders = ["Content-Type": "text/plain; charset=utf-8"]
        headers["Allow"] = error.allowedMethod
        return HTTPResponse(status: error.status, headers: headers, text: error.message + "\n")
    }

    // MARK: Paths

    /// Returns the components of a path, percent-encoded.
    private static func components(of request: HTTPRequestHead) -> [Substring] { request.path.split(separator: "/") }

    /// Returns the ID of the app in the path of a request to the HTTP API, or `nil` if it has none.
    static func appID(of request: HTTPRequestHead) -> ByteString? {
        let parts = self.components(of: request)
        return parts.count >= 2 && parts[0] == "apps" ? PercentEncoding.decode(parts[1]).map { ByteString($0) } : nil
    }

    /// Returns the key of the app in the path of an upgrade to a WebSocket, or `nil` if it has none.
    static func appKey(of request: HTTPRequestHead) -> ByteString? {
        let parts = self.components(of: request).suffix(2)
        return parts.count == 2 && parts.first == "app" ? parts.last.map { ByteString(String($0)) } : nil
    }

    /// Returns the components of a path below `/apps/{id}`, or `nil` if they can't be decoded.
    fileprivate static func call(in request: HTTPRequestHead) -> [String]? {
        let parts = self.components(of: request).dropFirst(2).map { PercentEncoding.decode($0) }
        return parts.contains(nil) ? nil : parts.compactMap(\.self)
    }
}

// MARK: - Requests

extension PusherServerAPI.Call {
    typealias Rejection = PusherServerAPI.Rejection
    typealias Publication = PusherServerAPI.Publication
    typealias Attribute = PusherServerAPI.Attribute

    /// The path of a request, below its app's path.
    private enum Route {
        case events
        case batch
        case channels
        case channel(String)
        case users(String)
        case terminate(String)
        /// The deprecated form of publishing, with the name of the event in the query and the data as the body.
        case event(channel: String)

        init?(_ parts: [String]) {
            switch (parts.count, parts.first, parts.last) {
            case (1, "events", _): self = .events
            case (1, "batch_events", _): self = .batch
            case (1, "channels", _): self = .channels
            // The deprecated path of a channel ends with `stats`.
            case (2, "channels", _), (3, "channels", "stats"): self = .channel(parts[1])
            case (3, "channels", "users"): self = .users(parts[1])
            case (3, "channels", "events"): self = .event(channel: parts[1])
            case (3, "users", "terminate_connections"): self = .terminate(parts[1])
            default: return nil
            }
        }

        var method: String {
            switch self {
            case .events, .batch, .event, .terminate: "POST"
            case .channels, .channel, .users: "GET"
            }
        }
    }

    init(_ request: HTTPRequestHead, body: [UInt8], app: PusherApp, unixTime: Int64) throws(Rejection) {
        if request.path == "/up" {
            self = .health
            return
        }
        guard let appID = PusherServerAPI.appID(of: request), let parts = PusherServerAPI.call(in: request), let route = Route(parts) else {
            let excerpt = Excerpt.of(String(request.path), limit: 200)
            throw Rejection(404, "Unknown path \(excerpt). To publish events, use POST /apps/{id}/events.")
        }
        guard appID == ByteString(app.id) else { throw Rejection(404, "Unknown app ID \(Excerpt.of(appID.string, limit: 200)).") }
        guard request.method == route.method else {
            let message = "Unsupported method \(Excerpt.of(request.method, limit: 20)). For this path, use \(route.method)."
            throw Rejection(405, message, allowedMethod: route.method)
        }
        let signatureError = RequestSignature.validationError(
            method: request.method, target: request.target, body: body, key: app.key, secret: app.secret, unixTime: unixTime)
        if let signatureError { throw Rejection(401, signatureError) }
        guard app.isEnabled else { throw Rejection(403, "The app is disabled.") }
        // The signature is valid, so that the query can be decoded.
        let fields = PercentEncoding.fields(request.query) ?? []
        let query = Dictionary(fields.map { (ByteString($0.name), $0.value) }) { first, _ in first }
        try self.init(route, query, body, app)
    }

    private init(_ route: Route, _ query: [ByteString: String], _ body: [UInt8], _ app: PusherApp) throws(Rejection) {
        switch route {
        case .events: self = .publish(try Publication(try Self.json(body), app))
        case .batch: self = .publishBatch(try Self.batch(try Self.json(body), app))
        case .event(let channel):
            guard let event = query[ByteString("name")] else { throw Rejection(400, "Missing \"name\" in the query.") }
            guard let data = String(validUTF8: body) else { throw Rejection(400, "Invalid body: it must be text in UTF-8.") }
            self = .publish(try Publication(event, [channel], data, except: query[ByteString("socket_id")], app))
        case .channels:
            let (prefix, attributes) = (query[ByteString("filter_by_prefix")] ?? "", try Attribute.set(query[ByteString("info")]))
            if let attribute = [Attribute.subscriptionCount, .cache].first(where: attributes.contains) {
                throw Rejection(400, "The attribute \(attribute.rawValue) is not available for a list of channels.")
            }
            if attributes.contains(.userCount), !ChannelName.kind(of: prefix).isPresence {
                throw Rejection(
                    400, "The attribute user_count is available for presence channels only; use a filter_by_prefix such as presence-.")
            }
            self = .channels(prefix: prefix, attributes)
        case .channel(let name):
            try Self.check(channel: name, app)
            let attributes = try Attribute.set(query[ByteString("info")])
            for attribute in attributes.sorted(by: { $0.rawValue < $1.rawValue }) {
                guard attribute.isAvailable(for: ChannelName.kind(of: name)) else {
                    throw Rejection(400, "The attribute \(attribute.rawValue) is not available for the channel \(name).")
                }
            }
            self = .channel(name, attributes)
        case .users(let channel):
            try Self.check(channel: channel, app)
            guard ChannelName.kind(of: channel).isPresence else {
                throw Rejection(400, "\(channel) is not a presence channel, and has no list of users.")
            }
            self = .users(channel: channel)
        case .terminate(let userID):
            if let message = app.validationError(userID: userID) { throw Rejection(400, message) }
            self = .terminateConnections(userID: userID)
        }
    }

    private static func json(_ body: [UInt8]) throws(Rejection) -> JSONValue {
        do throws(JSONError) {
            return try JSONValue(parsing: body)
        } catch {
            throw Rejection(400, "Invalid body: \(error.message)")
        }
    }

    private static func batch(_ json: JSONValue, _ app: PusherApp) throws(Rejection) -> [Publication] {
        guard let events = json["batch"]?.array else { throw Rejection(400, "\"batch\" must be an array of events.") }
        guard !events.isEmpty, events.count <= app.batchLimit else {
            throw Rejection(400, "The batch has \(events.count) events; publish 1 to \(app.batchLimit) events at a time.")
        }
        var batch: [Publication] = []
        for event in events {
            // "channels" would take precedence, and the response has the attributes of one channel for each event.
            guard event["channel"]?.string != nil, event["channels"] ?? .null == .null else {
                throw Rejection(400, "\"channel\" of an event in a batch must be a string, and \"channels\" is not available.")
            }
            batch.append(try Publication(event, app))
        }
        return batch
    }

    fileprivate static func check(channel: String, _ app: PusherApp) throws(Rejection) {
        let message =
            if let user = UserID.user(ofChannel: channel) {
                app.validationError(userID: user)
            } else {
                app.validationError(channel: channel)
            }
        if let message { throw Rejection(400, message) }
    }
}

extension PusherServerAPI.Publication {
    fileprivate typealias Rejection = PusherServerAPI.Rejection

    fileprivate init(_ json: JSONValue, _ app: PusherApp) throws(Rejection) {
        guard let event = json["name"]?.string else { throw Rejection(400, "\"name\" must be a string.") }
        guard let data = json["data"]?.string else { throw Rejection(400, "\"data\" must be a string.") }
        let channels: [String]
        if let value = json["channels"], value != .null {
            guard let list = value.array, case let names = list.compactMap(\.string), names.count == list.count else {
                throw Rejection(400, "\"channels\" must be an array of strings.")
            }
            channels = names
        } else if let channel = json["channel"]?.string {
            channels = [channel]
        } else {
            throw Rejection(400, "Missing \"channels\", an array of strings, or \"channel\", a string.")
        }
        let except = json["socket_id"].flatMap { $0 == .null ? nil : $0.string ?? "" }
        try self.init(event, channels, data, except: except, app)
        self.attributes = try PusherServerAPI.Attribute.set(json["info"]?.string)
        if let tags = json["tags"], tags != .null {
            guard let tags = EventTags(tags) else { throw Rejection(400, "\"tags\" must be an object whose values are strings.") }
            // The tags are a part of the frame.
            guard tags.size <= app.eventDataLimit else {
                throw Rejection(413, "The tags have \(tags.size) bytes; those of an event can have at most \(app.eventDataLimit).")
            }
            self.tags = app.allowsFilters ? tags : nil
        }
    }

    fileprivate init(_ event: String, _ channels: [String], _ data: String, except: String?, _ app: PusherApp) throws(Rejection) {
        if let message = EventName.validationError(event, limit: app.eventNameLimit) { throw Rejection(400, message) }
        guard data.utf8.count <= app.eventDataLimit else {
            throw Rejection(413, "The data has \(data.utf8.count) bytes; an event can have at most \(app.eventDataLimit).")
        }
        guard !channels.isEmpty, channels.count <= app.publicationChannelLimit else {
            throw Rejection(
                400, "The event has \(channels.count) channels; publish to 1 to \(app.publicationChannelLimit) channels at a time.")
        }
        for channel in channels { try PusherServerAPI.Call.check(channel: channel, app) }
        if let except, !ChannelSignature.isSocketID(except) {
            throw Rejection(400, "Invalid \"socket_id\": it must consist of two numbers with a dot between them, such as 123.456.")
        }
        (self.event, self.channels, self.data, self.except) = (event, channels, data, except)
    }
}

extension PusherServerAPI.Attribute {
    /// Parses a list of attributes.
    fileprivate static func set(_ list: String?) throws(PusherServerAPI.Rejection) -> Set<Self> {
        var attributes: Set<Self> = []
        for name in list?.split(separator: ",") ?? [] {
            guard let attribute = Self(rawValue: String(name)) else {
                throw .init(400, "Unknown attribute \(Excerpt.of(String(name), limit: 80)) in \"info\".")
            }
            attributes.insert(attribute)
        }
        return attributes
    }
}
