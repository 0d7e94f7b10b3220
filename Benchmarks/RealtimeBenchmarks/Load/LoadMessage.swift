import PusherWire
import RealtimeCore
import RealtimeCoding
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
    /// A client event that the load generator replies to with as many events as to a poll.
    static let some = "client-some"
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

    /// Returns an event on a channel.
    static func text(channel: String) -> [UInt8] {
        let bare = self.text(channel: channel, venue: "").count
        precondition(bare < self.size, "the name of the channel is too long")
        return self.text(channel: channel, venue: String(repeating: "X", count: self.size - bare))
    }

    private static func text(channel: String, venue: String) -> [UInt8] {
        Array(#"{"event":"\#(self.event)","channel":"\#(channel)","data":\#(JSONValue.string(self.data(venue)).description)}"#.utf8)
    }

    private static func data(_ venue: String) -> String {
        #"{"symbol":"ACME","price":1234.56,"volume":98765,"side":"buy","time":1712345678901,"venue":"\#(venue)"}"#
    }

    /// The data of an event that is published.
    static let data = LoadMessage.data(String(repeating: "X", count: 20))

    // MARK: Encrypted channels

    /// The key from which the keys of the encrypted channels are derived, in Base64.
    static let masterKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

    /// Returns the name of the encrypted channel with an index. All names have the same length.
    static func encryptedChannel(_ index: Int) -> String { "private-encrypted-\(self.digits(index))" }

    /// Returns an event on an encrypted channel as a frame. Its length depends only on the size of the data.
    ///
    /// - Parameter size: The size of the data before it is encrypted, in bytes.
    static func encryptedFrame(channel: String, size: Int) -> [UInt8] {
        let data = String(repeating: "x", count: size)
        guard let key = try? EncryptionKey(base64: self.masterKey).sharedSecret(of: channel),
            let payload = try? EncryptedPayload(encrypting: data, key: key, nonce: EncryptedPayload.nonce())
        else { preconditionFailure("the key or the nonce has the wrong length") }
        let event = #"{"event":"\#(self.event)","channel":"\#(channel)","data":\#(JSONValue.string(payload.json).description)}"#
        var frame: [UInt8] = []
        FrameEncoder.append(.text, Array(event.utf8), mask: nil, to: &frame)
        return frame
    }

    // MARK: Presence channels

    private static let presencePrefix = "presence-"

    /// Returns the name of the presence channel that has a number of members.
    static func presenceChannel(members: Int) -> String { "\(self.presencePrefix)\(members)" }

    /// Returns the frames with which a member leaves a channel and joins it again. Their length doesn't depend on the member.
    static func memberFrames(channel: String, _ index: Int) -> [UInt8] {
        let (id, info) = (self.digits(index), self.memberInfo)
        var frames: [UInt8] = []
        for message in [PusherFrames.memberRemoved(channel, id: id), PusherFrames.memberAdded(channel, id: id, info: info)] {
            FrameEncoder.append(.text, message.bytes, mask: nil, to: &frames)
        }
        return frames
    }

    private static let memberInfo: JSONValue = ["name": "Anna"]

    private static func digits(_ index: Int) -> String {
        let digits = "\(index)"
        return String(repeating: "0", count: max(0, 6 - digits.count)) + digits
    }

    static func greeting(_ number: Int) -> [UInt8] {
        Array(#"{"event":"pusher:connection_established","data":"{\"socket_id\":\"1.\#(number)\",\"activity_timeout\":120}"}"#.utf8)
    }

    static func subscribed(to channel: String) -> [UInt8] {
        if channel.utf8.starts(with: self.presencePrefix.utf8), let count = Int(channel.dropFirst(self.presencePrefix.count)) {
            return PusherFrames.subscriptionSucceeded(channel, members: (0..<count).map { (self.digits($0), self.memberInfo) }).bytes
        }
        return PusherFrames.subscriptionSucceeded(channel).bytes
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
