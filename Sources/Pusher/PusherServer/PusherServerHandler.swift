import RealtimeJSON
import RealtimeSystem
import PusherWire
import RealtimeCore

/// Handles what a listener accepts: hands WebSockets to the server's driver and responds to requests to the HTTP API.
///
/// The listener holds the handler and not the server, so that releasing the server closes it, and the listener with it.
final class PusherServerHandler: ListenerHandler {
    private let app: PusherApp
    private let unixTime: @Sendable () -> Int64
    private let driver: SessionDriver<PusherServerMachine>
    private let injector: FaultInjector
    private let rejectionCode = Lock<CloseCode?>(nil)
    private let isShutDown = Lock(false)

    init(
        app: PusherApp, driver: SessionDriver<PusherServerMachine>, injector: FaultInjector, unixTime: @escaping @Sendable () -> Int64
    ) {
        self.app = app
        self.driver = driver
        self.injector = injector
        self.unixTime = unixTime
    }

    /// Rejects everything from now on, because the server is released and its listener has not stopped yet. A WebSocket whose upgrade
    /// is accepted at the same time is closed by the listener.
    func shutDown() { self.isShutDown.withLock { $0 = true } }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        if self.isShutDown.withLock({ $0 }) { return .reject(PusherServerAPI.unavailable) }
        // A connection is rejected with a close code when it is open: a rejected upgrade cannot carry the code.
        return .accept(subprotocol: nil)
    }

    func accepted(_ connection: any WebSocketConnection, id: ConnectionID, request: HTTPRequestHead) -> any WebSocketEvents {
        let faulty = self.injector.decorate(connection, id: id, events: self.driver)
        let rejectionCode = self.rejectionCode.withLock { $0 }
        self.driver.adopt(faulty, id: id) { machine, now, effects in
            machine.accepted(id, request, rejection: rejectionCode, now: now, &effects)
            machine.suspendHeartbeat(id, faulty.isSilent, now: now)
        }
        return faulty
    }

    // MARK: Faults

    var faults: PusherServerFaults {
        get { PusherServerFaults(self.injector.faults, rejectionCode: self.rejectionCode.withLock { $0 }) }
        set {
            self.rejectionCode.withLock { $0 = newValue.rejectionCode }
            self.driver.step { machine, now, _ in
                self.injector.faults = newValue.connectionFaults
                for id in machine.connections.keys.sorted() {
                    machine.suspendHeartbeat(id, self.injector.connection(id)?.isSilent ?? false, now: now)
                }
            }
        }
    }

    func silence(_ socketID: String, _ isSilent: Bool) {
        self.driver.step { machine, now, _ in
            guard let id = machine.connectionIDs[ByteString(socketID)], let connection = self.injector.connection(id) else { return }
            connection.silence(isSilent)
            machine.suspendHeartbeat(id, connection.isSilent, now: now)
        }
    }

    /// Sends a message regardless of faults.
    func sendUnaffected(_ message: WebSocketMessage, to socketID: String) {
        let id = self.driver.read { $0.connectionIDs[ByteString(socketID)] }
        id.flatMap(self.injector.connection)?.sendUnaffected(message)
    }

    // MARK: HTTP API

    /// Responds to a request to the HTTP API before returning.
    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        if self.isShutDown.withLock({ $0 }) { return responder.respond(PusherServerAPI.unavailable) }
        switch PusherServerAPI.handle(request, body: body, app: self.app, unixTime: self.unixTime()) {
        case .respond(let response): responder.respond(response)
        case .reject(let status, let message):
            self.driver.step { machine, _, effects in
                machine.deliver(.error(socketID: nil, code: status, message: message), &effects)
            }
            responder.respond(PusherServerAPI.error(status, message))
        case .publish(let publication):
            self.driver.step { machine, now, effects in
                for channel in publication.channels {
                    machine.publish(publication.event, to: channel, data: publication.data, except: publication.except, now: now, &effects)
                }
            }
            responder.respond(PusherServerAPI.published)
        }
    }
}

/// The part of the service's HTTP API that publishes events.
enum PusherServerAPI {
    struct Publication: Sendable {
        var event: String
        var channels: [String]
        var data: String
        var except: String?
    }

    enum Action: Sendable {
        case respond(HTTPResponse)
        case reject(status: Int, message: String)
        case publish(Publication)
    }

    static let published = HTTPResponse(status: 200, headers: ["Content-Type": "application/json"], text: "{}")
    static let unavailable = PusherServerAPI.error(503, "The server has stopped.")

    static func handle(_ request: HTTPRequestHead, body: [UInt8], app: PusherApp, unixTime: Int64) -> Action {
        let path = request.target.utf8.prefix { $0 != UInt8(ascii: "?") }
        let parts = path.split(separator: UInt8(ascii: "/")).map { ByteString(String(decoding: $0, as: UTF8.self)) }
        if parts == [ByteString("up")] { return .respond(HTTPResponse(status: 200, text: "OK\n")) }
        guard parts.count == 3, parts[0] == ByteString("apps"), parts[2] == ByteString("events") else {
            let excerpt = Excerpt.of(bytes: path, limit: 200)
            return self.reject(404, "Unknown path \(excerpt). To publish events, use POST /apps/{id}/events.")
        }
        guard parts[1] == ByteString(app.id) else {
            return self.reject(404, "Unknown app ID \(Excerpt.of(parts[1].string, limit: 200)).")
        }
        guard request.method == "POST" else {
            return self.reject(405, "Unsupported method \(Excerpt.of(request.method, limit: 20)). To publish events, use POST.")
        }
        let signatureError = RequestSignature.validationError(
            method: request.method, target: request.target, body: body, key: app.key, secret: app.secret, unixTime: unixTime)
        if let signatureError { return self.reject(401, signatureError) }
        do throws(JSONError) {
            return self.publication(try JSONValue(parsing: body), app)
        } catch {
            return self.reject(400, "Invalid body: \(error.message)")
        }
    }

    private static func publication(_ json: JSONValue, _ app: PusherApp) -> Action {
        guard let event = json["name"]?.string else { return self.reject(400, "\"name\" must be a string.") }
        if let message = EventName.validationError(event, limit: app.eventNameLimit) { return self.reject(400, message) }
        guard let data = json["data"]?.string else { return self.reject(400, "\"data\" must be a string.") }
        guard data.utf8.count <= app.eventDataLimit else {
            return self.reject(413, "The data has \(data.utf8.count) bytes; an event can have at most \(app.eventDataLimit).")
        }
        let channels: [String]
        if let value = json["channels"], value != .null {
            guard let list = value.array, case let names = list.compactMap(\.string), names.count == list.count else {
                return self.reject(400, "\"channels\" must be an array of strings.")
            }
            channels = names
        } else if let channel = json["channel"]?.string {
            channels = [channel]
        } else {
            return self.reject(400, "Missing \"channels\", an array of strings, or \"channel\", a string.")
        }
        guard !channels.isEmpty, channels.count <= 100 else {
            return self.reject(400, "The event has \(channels.count) channels; publish to 1 to 100 channels at a time.")
        }
        for channel in channels {
            if let message = ChannelName.validationError(channel, limit: app.channelNameLimit) { return self.reject(400, message) }
        }
        return .publish(Publication(event: event, channels: channels, data: data, except: json["socket_id"]?.string))
    }

    private static func reject(_ status: Int, _ message: String) -> Action { .reject(status: status, message: message) }

    static func error(_ status: Int, _ message: String) -> HTTPResponse {
        HTTPResponse(status: status, headers: ["Content-Type": "text/plain; charset=utf-8"], text: message + "\n")
    }
}
