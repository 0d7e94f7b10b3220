import PrimusWire
import RealtimeCoding
import RealtimeCore
import RealtimeSystem

/// The requests of sessions over HTTP: the polling of engine.io, and the streaming and polling of SockJS.
extension PrimusServerHandler {
    /// The meaning of a request of a session.
    private enum SessionRequest {
        /// It belongs to the session of engine.io with an ID, or opens one.
        case engineIO(EngineIOVersion, sid: String?)
        /// It receives messages of the session of SockJS with an ID, which it may open, or brings some.
        case sockJS(String)
        case refused(HTTPResponse)
    }

    /// The version of engine.io that a request asks for; `nil` for one that the server doesn't speak.
    func engineIOVersion(of request: HTTPRequestHead) -> EngineIOVersion? {
        if self.configuration.version == .v6 { return .v3 }
        // As the original, a server takes every version but 4 for 3.
        if request.field("EIO").flatMap({ Int($0) }) == 4 { return .v4 }
        return self.configuration.allowsEIO3 ? .v3 : nil
    }

    func engineIOSession(_ sid: String) -> EngineIOServedSession? {
        self.sessions.withLock { $0[ByteString(sid)] } as? EngineIOServedSession
    }

    /// Handles a request of a session.
    ///
    /// - Returns: Whether it is one.
    func sessionRequest(
        _ request: HTTPRequestHead, _ body: [UInt8], _ rest: Substring, _ common: CommonFieldsResponder
    ) -> Bool {
        guard let meaning = self.meaning(of: request, rest) else { return false }
        var responder: any HTTPResponder = common
        let waits = Self.waits(request, meaning)
        if waits, self.failsPoll() {
            responder.respond(self.reporting(Self.text(500, "The server is configured to fail.")))
            return true
        }
        if Self.bringsMessages(request, meaning), self.faults.lostAnswers > 0 {
            // The session may refuse the body, or the hook the client.
            responder = LosingResponder(responder) { [weak self] response in
                response.head.status < 300 && self?.losesAnswer() == true
            }
        }
        var served = ServedRequest(request, body: body, waits: waits, responder)
        // Without a hook, the decision is made before this function returns.
        let session = self.session(meaning)
        if !waits, self.configuration.authorize != nil, let session { served.reservePlace(on: session) }
        self.authorize(request, isOfSession: session != nil) { [served] decision in
            responder.onDisconnect {
                // An accepted request belongs to its connection, which must learn of the end.
                if decision.cancel() { served.refuse(Self.text(400, "The client cancelled the request.")) }
            }
        } decided: { [served] rejection in
            if let rejection { return served.refuse(rejection) }
            if Self.hasSockJSCookie(request), let cookie = self.sockJSCookie(request) { common.setCookie(cookie) }
            self.pass(served, meaning)
        }
        return true
    }

    /// Whether the answer to a request of a session of SockJS has the cookie for balancers. The original refuses other methods before.
    private static func hasSockJSCookie(_ request: HTTPRequestHead) -> Bool {
        switch SockJSServedRules.transport(of: request) {
        case .eventSource?: request.method == "GET"
        case .xhr?, .xhrStreaming?, .xhrSend?: request.method == "POST" || request.method == "OPTIONS"
        case .websocket?, nil: false
        }
    }

    /// The cookie for balancers in the answer to a request of SockJS: that of the request, if it has one; `nil` if the server sets none.
    ///
    /// Source: `h_sid` in `sockjs.js` of sockjs-node 0.3.24.
    func sockJSCookie(_ request: HTTPRequestHead) -> String? {
        guard self.configuration.transformer == .sockjs, let name = self.configuration.sessionCookie else { return nil }
        var value: Substring = ""
        for cookie in request.headers.values("Cookie").flatMap({ $0.split(separator: ";") }) {
            let parts = cookie.split(separator: "=", omittingEmptySubsequences: false).map(Self.trimmed)
            if parts[0] == name { value = parts.count > 1 ? parts[1] : "" }
        }
        return "\(name)=\(value.isEmpty ? "dummy" : value); path=/"
    }

    private static func trimmed(_ text: Substring) -> Substring {
        let rest = text.drop { $0 == " " || $0 == "\t" }
        guard let last = rest.lastIndex(where: { $0 != " " && $0 != "\t" }) else { return "" }
        return rest[...last]
    }

    /// The meaning of a request; `nil` if it belongs to no session. The session reads the body when the request is authorized.
    private func meaning(of request: HTTPRequestHead, _ rest: Substring) -> SessionRequest? {
        switch self.configuration.transformer {
        case .engineIO:
            guard request.field("transport") == "polling" else { return nil }
            let version = self.engineIOVersion(of: request)
            guard let sid = request.field("sid"), !sid.isEmpty else {
                guard request.method == "GET" else { return .refused(Self.refusal(.badHandshakeMethod)) }
                guard let version else { return .refused(Self.refusal(.unsupportedVersion)) }
                return .engineIO(version, sid: nil)
            }
            guard let session = self.engineIOSession(sid) else { return .refused(Self.refusal(.unknownSession)) }
            guard session.isPolling, version == session.version else { return .refused(Self.refusal(.badRequest)) }
            switch (request.method, session.version) {
            case ("GET", _), ("POST", _): return .engineIO(session.version, sid: sid)
            case ("OPTIONS", _) where self.configuration.version == .v6: return .refused(HTTPResponse(status: 200))
            default: return .refused(HTTPResponse(status: 500))
            }
        case .sockjs:
            let parts = rest.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
            guard parts.count == 3, parts.allSatisfy({ !$0.isEmpty && !$0.utf8.contains(UInt8(ascii: ".")) }),
                let transport = SockJSServedRules.transport(of: request), transport != .websocket, let session = parts.dropFirst().first
            else { return nil }
            let method = transport == .eventSource ? "GET" : "POST"
            if request.method == "OPTIONS", method == "POST" { return .refused(Self.options("OPTIONS, POST")) }
            guard request.method == method else { return .refused(Self.notAllowed(method == "GET" ? "GET" : "POST, OPTIONS")) }
            let key = ByteString(String(session))
            let isOpen = self.sessions.withLock { $0[key] != nil }
            let closing = isOpen ? nil : self.closedSessions.withLock { $0.frame(of: key, now: self.time.now) }
            if transport == .xhrSend {
                guard isOpen else { return .refused(closing == nil ? Self.notFound : SockJSServedRules.taken) }
            } else if let closing {
                return .refused(SockJSServedRules.answer(to: request, closing))
            }
            return .sockJS(String(session))
        default: return nil
        }
    }

    /// Whether a request may bring messages to a session that exists.
    func bringsMessages(_ request: HTTPRequestHead, _ rest: Substring) -> Bool {
        guard request.method == "POST" else { return false }
        switch self.configuration.transformer {
        case .engineIO: return request.field("sid").map { self.engineIOSession($0) != nil } ?? false
        case .sockjs:
            let parts = rest.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
            guard parts.count == 3, SockJSServedRules.transport(of: request) == .xhrSend, let id = parts.dropFirst().first else {
                return false
            }
            return self.sessions.withLock { $0[ByteString(String(id))] != nil }
        default: return false
        }
    }

    /// Whether a request waits for messages.
    private static func waits(_ request: HTTPRequestHead, _ meaning: SessionRequest) -> Bool {
        switch meaning {
        case .engineIO: request.method == "GET"
        case .sockJS: SockJSServedRules.transport(of: request) != .xhrSend
        case .refused: false
        }
    }

    /// Whether a request brings messages to a session.
    private static func bringsMessages(_ request: HTTPRequestHead, _ meaning: SessionRequest) -> Bool {
        if case .refused = meaning { false } else { !self.waits(request, meaning) }
    }

    private func session(_ meaning: SessionRequest) -> (any ServedRequests)? {
        switch meaning {
        case .engineIO(_, let sid): sid.flatMap { self.engineIOSession($0) }
        case .sockJS(let id): self.sessions.withLock { $0[ByteString(id)] }
        case .refused: nil
        }
    }

    /// The request was authorized.
    private func pass(_ request: ServedRequest, _ meaning: SessionRequest) {
        if case .refused(let response) = meaning { return request.refuse(response) }
        // The session may have ended since the request arrived.
        if let session = self.session(meaning) {
            if request.waits { self.hasAsked(meaning) }
            return request.pass(to: session)
        }
        switch meaning {
        case .engineIO(let version, nil):
            if let rejection = self.makeRoom() ?? self.reservePlace() { return request.refuse(rejection) }
            request.pass(to: self.open(version, request.head))
        case .engineIO: request.refuse(Self.refusal(.unknownSession))
        case .sockJS(let id) where request.waits:
            if let rejection = self.makeRoom() ?? self.reservePlace() { return request.refuse(rejection) }
            request.pass(to: self.open(id, request.head))
        case .sockJS: request.refuse(Self.notFound)
        case .refused: break
        }
    }

    /// Makes room for a session whose client hasn't asked for messages yet, at the cost of the oldest one of those if need be.
    ///
    /// - Returns: The response to a client for which there is no room; `nil` if there is.
    private func makeRoom() -> HTTPResponse? {
        let count = self.sessions.withLock { $0.count }
        let room = self.unreadSessions.withLock { unread in
            unread.room(sessionCount: count, now: self.time.now) {
                let sessions = self.sessions.withLock { Array($0.values) }
                return sessions.count { $0.isUnread(for: UnreadSessions.time) }
            }
        }
        switch room {
        case .available: return nil
        case .takes(let key):
            if let session = self.sessions.withLock({ $0[key] }) {
                self.connections.driver.step { machine, now, effects in machine.forgetUnread(session.id, now: now, &effects) }
            }
            return nil
        case .none: return self.unreadRejection
        }
    }

    /// The client of a session has asked for messages, other than with the request that has opened it.
    private func hasAsked(_ meaning: SessionRequest) {
        switch meaning {
        case .engineIO(_, let sid?): self.unreadSessions.withLock { $0.remove(ByteString(sid)) }
        case .sockJS(let id): self.unreadSessions.withLock { $0.remove(ByteString(id)) }
        case .engineIO(_, nil), .refused: break
        }
    }

    private var unreadRejection: HTTPResponse {
        self.reporting(
            Self.json(503, ["error": "The server has as many sessions as it accepts whose clients don't ask for their messages."]))
    }

    private func open(_ version: EngineIOVersion, _ request: HTTPRequestHead) -> any ServedRequests {
        let sid = self.connections.driver.makeSparkID()
        let cookie = self.configuration.sessionCookie.map { "\($0)=\(sid); Path=/; HttpOnly; SameSite=Lax" }
        let rules = EngineIOServedRules(version, cookie: cookie, self.configuration, self.encodings)
        let key = ByteString(sid)
        let session = EngineIOServedSession(
            rules, version, messageLimit: self.configuration.messageLimit, time: self.time,
            backlogBytes: self.configuration.sessionBacklogLimit, sharedBacklog: self.sharedBacklog,
            probeTimeout: self.configuration.engineProbeTimeout, trace: self.trace,
            ignoresProbes: { [weak self] in self?.faults.ignoresProbes ?? false },
            onEnd: { [weak self] in self?.forget(key) })
        self.sessions.withLock { $0[key] = session }
        self.unreadSessions.withLock { $0.add(key) }
        let events = self.connections.adopt(session, id: session.id) { machine, _, _ in
            machine.accepted(session.id, .engineIO(version, .server), request, overHTTP: true, sparkID: sid)
        }
        session.start(events)
        return session
    }

    private func open(_ id: String, _ request: HTTPRequestHead) -> any ServedRequests {
        let key = ByteString(id)
        let session = ServedHTTPMessages(
            SockJSServedRules(self.configuration, self.encodings, onClose: { [weak self] in self?.remember($0, of: key) }), time: self.time,
            backlogBytes: self.configuration.sessionBacklogLimit, sharedBacklog: self.sharedBacklog,
            onEnd: { [weak self] _ in self?.forget(key) })
        // Another request may have opened the session since this one was authorized.
        let existing = self.sessions.withLock { sessions -> (any ServedRequests)? in
            if let existing = sessions[key] { return existing }
            sessions[key] = session
            return nil
        }
        if let existing {
            self.releasePlace()
            return existing
        }
        // A stream waits for messages with its first request.
        if SockJSServedRules.transport(of: request) == .xhr { self.unreadSessions.withLock { $0.add(key) } }
        let divided = DividedConnection(session, session.id, SockJSMessageDivider(areValid: true), time: self.time)
        let adopted: any MessageConnection = self.trace.map { TracedConnection(divided, session.id, $0) } ?? divided
        let events = self.connections.adopt(adopted, id: session.id) { machine, _, _ in
            machine.accepted(session.id, .sockJS(.server), request, overHTTP: true)
        }
        divided.start(events)
        session.start(self.trace.map { TracedEvents(divided, $0) } ?? divided)
        return session
    }

    /// The session over HTTP of the client with an ID; `nil` if it has none.
    func session(ofSpark name: String) -> (any ServedRequests)? {
        guard let id = self.connections.driver.read({ $0.connection(named: name) }) else { return nil }
        return self.sessions.withLock { sessions in sessions.values.first { $0.id == id } }
    }

    /// Drops the connections of a client, whose requests end without an answer.
    func drop(_ name: String) {
        let responders = self.session(ofSpark: name)?.takeResponders() ?? []
        self.connections.drop(name)
        for responder in responders { (responder as? any DroppableResponder)?.drop() }
    }

    /// Forgets the session over HTTP of a client. A WebSocket remains.
    func forgetSession(_ name: String) {
        if let session = self.session(ofSpark: name), (session as? EngineIOServedSession)?.isPolling ?? true { self.connections.drop(name) }
    }

    /// Ends the sessions over HTTP that the server has closed and whose clients can't send another request.
    func endClosingSessions() {
        let sessions = self.sessions.withLock { Array($0.values) }
        for session in sessions { session.endClosing() }
    }

    private func remember(_ frame: SockJSFrame, of key: ByteString) {
        let end = self.time.now.advanced(by: self.configuration.sockJSDisconnectDelay)
        self.closedSessions.withLock { $0.add(frame, of: key, until: end) }
    }

    private func forget(_ key: ByteString) {
        self.unreadSessions.withLock { $0.remove(key) }
        // Released outside the lock.
        let (session, isLast) = self.sessions.withLock { ($0.removeValue(forKey: key), $0.isEmpty) }
        if isLast { self.encodings.removeAll() }
        _ = session
    }
}

/// The frames of sessions of SockJS that the server has ended, for requests that follow.
struct SockJSClosedSessions: Sendable {
    /// The number of sessions, of which the oldest is forgotten.
    private static let limit = 10_000

    private var frames: [ByteString: (frame: SockJSFrame, until: Instant)] = [:]
    private var order = FIFO<(key: ByteString, until: Instant)>()

    mutating func add(_ frame: SockJSFrame, of key: ByteString, until end: Instant) {
        self.frames[key] = (frame, end)
        self.order.append((key, end))
        if self.frames.count > Self.limit { self.removeFirst() }
    }

    /// The frame of a session; `nil` if the server has forgotten it.
    mutating func frame(of key: ByteString, now: Instant) -> SockJSFrame? {
        while let first = self.order.first, first.until <= now { self.removeFirst() }
        return self.frames[key]?.frame
    }

    private mutating func removeFirst() {
        guard let first = self.order.popFirst(), self.frames[first.key]?.until == first.until else { return }
        self.frames[first.key] = nil
    }
}

/// Adds the header fields that Primus adds to all responses: those with which it allows pages of any origin, and, except for the
/// specification, those that keep a response out of caches.
final class CommonFieldsResponder: DroppableResponder, SharingResponder {
    private let origin: String?
    private let isCached: Bool
    private let responder: any HTTPResponder
    private let cookie = Lock<String?>(nil)

    init(_ origin: String?, isCached: Bool, _ responder: any HTTPResponder) {
        (self.origin, self.isCached, self.responder) = (origin, isCached, responder)
    }

    /// Sets a cookie, which the response has as well.
    func setCookie(_ cookie: String) { self.cookie.withLock { $0 = cookie } }

    private func completed(_ head: HTTPResponseHead) -> HTTPResponseHead {
        var head = head
        PrimusServerHandler.allow(self.origin, &head)
        if let cookie = self.cookie.withLock({ $0 }) { head.headers["Set-Cookie"] = cookie }
        if !self.isCached {
            head.headers["Cache-Control"] = "no-store, no-cache, must-revalidate, max-age=0"
            head.headers["Pragma"] = "no-cache"
        }
        return head
    }

    func respond(_ response: HTTPResponse) {
        self.responder.respond(HTTPResponse(self.completed(response.head), body: response.body))
    }
    func begin(_ head: HTTPResponseHead) { self.responder.begin(self.completed(head)) }
    func respond(_ head: HTTPResponseHead, _ body: SharedBody) { self.responder.respond(self.completed(head), sharing: body) }
    func write(_ bytes: [UInt8]) { self.responder.write(bytes) }
    func write(_ body: SharedBody) { self.responder.write(sharing: body) }
    func send(_ bytes: [UInt8]) async throws(TransportError) { try await self.responder.send(bytes) }
    func end() { self.responder.end() }
    func drop() { (self.responder as? any DroppableResponder)?.drop() }
    func onWriting(_ change: @escaping @Sendable (_ paused: Bool) -> Void) { self.responder.onWriting(change) }
    func onDisconnect(_ action: @escaping @Sendable () -> Void) { self.responder.onDisconnect(action) }
}

extension SessionDriver<PrimusServerMachine> {
    /// Returns an ID that no spark has.
    func makeSparkID() -> String {
        var id = ""
        self.step { machine, _, _ in id = machine.makeID() }
        return id
    }
}
