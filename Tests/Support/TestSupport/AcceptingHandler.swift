package import RealtimeCore

/// A handler that takes the connections of the upgrades that it accepts, in the tests of what is behind a listener.
package protocol AcceptingHandler: ListenerHandler {
    /// Decides about an upgrade. The handler takes the place of the acceptor.
    func decision(about request: HTTPRequestHead) -> UpgradeDecision
    func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents
    func messageLimit(for request: HTTPRequestHead) -> Int?
    func abandoned(_ request: HTTPRequestHead)
}

extension AcceptingHandler {
    package func decision(about request: HTTPRequestHead) -> UpgradeDecision { .accept() }

    package func messageLimit(for request: HTTPRequestHead) -> Int? { nil }

    package func abandoned(_ request: HTTPRequestHead) {}

    package func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        self.decision(about: request).replacingAcceptor { _ in HandlerAcceptor(handler: self, request: request) }
    }
}

private struct HandlerAcceptor: UpgradeAcceptor {
    let handler: any AcceptingHandler
    let request: HTTPRequestHead

    var messageLimit: Int? { self.handler.messageLimit(for: self.request) }

    func connected(_ connection: any MessageConnection, id: ConnectionID) -> any MessageEvents {
        self.handler.accepted(connection, id: id, request: self.request)
    }

    func abandoned() { self.handler.abandoned(self.request) }
}

/// An acceptor that another one replaces.
private struct NoAcceptor: UpgradeAcceptor {
    func connected(_ connection: any MessageConnection, id: ConnectionID) -> any MessageEvents {
        preconditionFailure("an upgrade was accepted by no handler")
    }
}

extension UpgradeDecision {
    /// Accepts an upgrade for an ``AcceptingHandler``.
    package static func accept(subprotocol: String? = nil, headers: HTTPHeaders = [:]) -> UpgradeDecision {
        .accept(subprotocol: subprotocol, headers: headers, to: NoAcceptor())
    }
}

extension UpgradeResponder {
    /// Accepts an upgrade for an ``AcceptingHandler``.
    package func accept(subprotocol: String? = nil, headers: HTTPHeaders = [:]) {
        self.accept(subprotocol: subprotocol, headers: headers, to: NoAcceptor())
    }
}
