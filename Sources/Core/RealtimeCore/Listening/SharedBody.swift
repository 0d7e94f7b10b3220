/// The body of a response, or a part of a streamed one, in pieces: large messages, which are sent to many clients and aren't copied for each of
/// them, and the bytes between them.
package struct SharedBody: Sendable {
    /// The pieces before the last one.
    private var earlier: [[UInt8]] = []
    /// The last piece; empty if a large message is the end of the body.
    private var last: [UInt8] = []

    package init() {}

    package init(_ bytes: [UInt8]) { self.last = bytes }

    /// The size from which a copy of a message for each client would take much memory.
    package static var largeSize: Int { 64 << 10 }

    package static func isLarge(_ message: [UInt8]) -> Bool { message.count >= self.largeSize }

    package var count: Int { self.earlier.reduce(self.last.count) { $0 + $1.count } }

    package var isEmpty: Bool { self.last.isEmpty && self.earlier.isEmpty }

    package var first: UInt8? { self.earlier.first?.first ?? self.last.first }

    /// The only piece, or no bytes; `nil` if there are several pieces.
    package var single: [UInt8]? {
        if self.earlier.isEmpty { return self.last }
        return self.earlier.count == 1 && self.last.isEmpty ? self.earlier[0] : nil
    }

    package var pieces: [[UInt8]] { self.last.isEmpty ? self.earlier : self.earlier + [self.last] }

    package mutating func append(_ byte: UInt8) { self.last.append(byte) }

    package mutating func append(_ bytes: [UInt8]) { self.last += bytes }

    /// Appends the bytes of a message, without a copy if it is large or the first one.
    package mutating func append(message bytes: [UInt8]) {
        if Self.isLarge(bytes) {
            if !self.last.isEmpty { self.earlier.append(self.last) }
            self.earlier.append(bytes)
            self.last = []
        } else if self.last.isEmpty {
            self.last = bytes
        } else {
            self.last += bytes
        }
    }
}

/// A responder that sends large messages without copying them.
package protocol SharingResponder: HTTPResponder {
    func respond(_ head: HTTPResponseHead, _ body: SharedBody)
    func write(_ body: SharedBody)
}

extension HTTPResponder {
    /// Sends a complete response, if possible without copying large messages.
    package func respond(_ head: HTTPResponseHead, sharing body: SharedBody) {
        if let bytes = body.single { return self.respond(HTTPResponse(head, body: bytes)) }
        if let sharing = self as? any SharingResponder { return sharing.respond(head, body) }
        self.respond(HTTPResponse(head, body: Array(body.pieces.joined())))
    }

    /// Sends a chunk of a body, if possible without copying large messages.
    package func write(sharing body: SharedBody) {
        if let bytes = body.single { return self.write(bytes) }
        if let sharing = self as? any SharingResponder { return sharing.write(body) }
        self.write(Array(body.pieces.joined()))
    }
}
