import RealtimeCore

/// A packet of a plugin.
package enum PrimusPluginPacket: Hashable, Sendable {
    case emitter(EmitterPacket)
    case emit(EmitPacket)
    case multiplex(MultiplexPacket)
    case substream(SubstreamPacket)
    case responder(ResponderPacket)
}

/// A packet of primus-emitter: an event, or its acknowledgement.
///
/// Source: `emitter.js` of primus-emitter 3.1.1.
package enum EmitterPacket: Hashable, Sendable {
    /// An event.
    ///
    /// - Parameter id: The ID of the acknowledgement that the sender waits for; `nil` if it waits for none.
    case event(name: String, PrimusArguments, id: Int64?)
    /// The acknowledgement of an event that had this ID.
    case acknowledgement(id: Int64, PrimusArguments)
}

/// A packet of primus-emit: an event without an acknowledgement.
///
/// Source: `index.js` of primus-emit 1.0.0.
package struct EmitPacket: Hashable, Sendable {
    package var name: String
    package var arguments: PrimusArguments

    package init(name: String, _ arguments: PrimusArguments) {
        self.name = name
        self.arguments = arguments
    }
}

/// A channel of primus-multiplex: its name, and the ID under which the client has joined it.
package struct MultiplexAddress: Hashable, Sendable {
    package var id: String
    package var channel: String

    package init(id: String, channel: String) {
        self.id = id
        self.channel = channel
    }

    var unknown: PrimusPluginError {
        .unknown(plugin: "multiplex", "no channel \"\(Excerpt.of(self.channel, limit: 100))\" has the ID \(Excerpt.of(self.id, limit: 40))")
    }
}

/// A packet of primus-multiplex.
///
/// Source: `multiplex.js` and `spark.js` of primus-multiplex 3.2.1.
package enum MultiplexPacket: Hashable, Sendable {
    /// A message on a channel. It is null if the packet has none: the original leaves out values such as `null`, `false` and 0.
    case message(MultiplexAddress, PrimusPayload)
    case subscribe(MultiplexAddress)
    case unsubscribe(MultiplexAddress)
}

/// A packet of substream.
///
/// Source: `substream.js` of substream 0.2.0.
package enum SubstreamPacket: Hashable, Sendable {
    case message(name: String, PrimusPayload)
    case end(name: String)

    /// The text that a packet has in place of a message, for the end of a stream.
    static let end = "substream::end"
}

/// A packet of primus-responder.
///
/// Source: `client/index.js` and `server/index.js` of primus-responder 1.0.4.
package enum ResponderPacket: Hashable, Sendable {
    /// A request. Its value, as that of a response, is null if the packet has none: JavaScript leaves out `undefined`.
    case request(id: String, PrimusPayload)
    case response(id: String, PrimusPayload)

    /// The value of the member `plugin`.
    static let plugin = "primus-responder"
}
