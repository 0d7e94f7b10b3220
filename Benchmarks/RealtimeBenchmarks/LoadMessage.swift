internal import CommandLineSupport
internal import RealtimeJSON
internal import PusherWire
internal import RealtimeCore
internal import RealtimeSockets

/// The messages that the load sends, and what a client says that wants an answer.
enum LoadMessage {
    /// An event of a channel as the service sends it, data and all: 195 bytes with 18 escaped quotes.
    static let size = 195
    static let event = "price"
    /// What a client sends: the load answers `last` with an event and the others with nothing.
    static let more = "client-more"
    static let last = "client-last"
    static let privateChannel = "private-load"

    /// The names of so many channels.
    static func channel(_ index: Int) -> String { index == 0 ? "prices" : "prices-\(index)" }

    static func frame(channel: String) -> [UInt8] {
        let text = self.text(channel: channel)
        var frame: [UInt8] = []
        FrameEncoder.append(.text, text, mask: nil, to: &frame)
        return frame
    }

    static func text(channel: String) -> [UInt8] {
        let bare = self.text(channel: channel, venue: "").count
        precondition(bare < self.size, "the channel's name is too long")
        return self.text(channel: channel, venue: String(repeating: "X", count: self.size - bare))
    }

    private static func text(channel: String, venue: String) -> [UInt8] {
        let data = #"{"symbol":"ACME","price":1234.56,"volume":98765,"side":"buy","time":1712345678901,"venue":"\#(venue)"}"#
        return Array(#"{"event":"\#(self.event)","channel":"\#(channel)","data":\#(JSONValue.string(data).description)}"#.utf8)
    }

    static func greeting(_ number: Int) -> [UInt8] {
        Array(#"{"event":"pusher:connection_established","data":"{\"socket_id\":\"1.\#(number)\",\"activity_timeout\":120}"}"#.utf8)
    }

    static func subscribed(to channel: String) -> [UInt8] {
        Array(#"{"event":"pusher_internal:subscription_succeeded","channel":\#(JSONValue.string(channel).description),"data":"{}"}"#.utf8)
    }
}

/// The data of the load's events.
struct LoadPrice: Decodable {
    var symbol: String
    var price: Double
    var volume: Int
    var side: String
    var time: Int
    var venue: String
}
