import PusherWire
import RealtimeCore
import RealtimeJSON
import RealtimeSockets

/// The messages between the load generator and its clients.
enum LoadMessage {
    /// The size of an event with its envelope, in bytes. Its data contains 18 escaped quotes.
    static let size = 195
    static let event = "price"
    /// A client event that the load generator ignores.
    static let more = "client-more"
    /// A client event that the load generator replies to with an event.
    static let last = "client-last"
    static let privateChannel = "private-load"

    /// Returns the name of the channel with an index.
    static func channel(_ index: Int) -> String { index == 0 ? "prices" : "prices-\(index)" }

    /// Returns an event on a channel as a frame.
    static func frame(channel: String) -> [UInt8] {
        let text = self.text(channel: channel)
        var frame: [UInt8] = []
        FrameEncoder.append(.text, text, mask: nil, to: &frame)
        return frame
    }

    private static func text(channel: String) -> [UInt8] {
        let bare = self.text(channel: channel, venue: "").count
        precondition(bare < self.size, "the name of the channel is too long")
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

/// The data of the load generator's events.
struct LoadPrice: Decodable {
    var symbol: String
    var price: Double
    var volume: Int
    var side: String
    var time: Int
    var venue: String
}
