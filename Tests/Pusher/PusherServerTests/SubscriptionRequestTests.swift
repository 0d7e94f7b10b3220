import PusherWire
import RealtimeCoding
import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

@testable import PusherServer

/// Which requests to subscribe are valid, without a server.
@Suite struct SubscriptionRequestTests {
    typealias Client = SubscriptionRequest.Client

    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let request: String
        var change: @Sendable (inout Client, inout PusherApp) -> Void = { _, _ in }
        /// The code and the message of the rejection; `nil` if the request is valid.
        var rejection: (code: Int?, message: String)?
        /// The ID of the member.
        var user: String?
        var hasFilter = false
        var limit: String?
    }

    private static let socketID = "1.2"

    /// A request with a valid signature.
    ///
    /// - Parameter signsData: Whether the signature covers the data.
    private static func signed(_ channel: String, _ channelData: String? = nil, signsData: Bool = true) -> String {
        let signedData = signsData ? channelData : nil
        let auth = ChannelSignature.token(key: "key", secret: "secret", socketID: Self.socketID, channel: channel, channelData: signedData)
        var json: JSONObject = ["channel": .string(channel), "auth": .string(auth)]
        if let channelData { json["channel_data"] = .string(channelData) }
        var writer = JSONWriter()
        writer.value(.object(json))
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    private static let unsigned = (4009 as Int?, "The connection is not authorized to subscribe to private-a: missing or invalid signature")

    static let table = [
        Row(testDescription: "a public channel", request: #"{"channel":"a"}"#),
        Row(
            testDescription: "a channel with an invalid name", request: #"{"channel":"a b"}"#,
            rejection: (nil, ChannelName.validationError("a b", limit: 200, allowsUsers: true) ?? "")),
        Row(
            testDescription: "a channel whose name is too long", request: #"{"channel":"abc"}"#, change: { $1.channelNameLimit = 2 },
            rejection: (nil, ChannelName.validationError("abc", limit: 2, allowsUsers: true) ?? ""), limit: "2 bytes of a channel's name"),
        Row(
            testDescription: "a channel to which the client is subscribed", request: #"{"channel":"a"}"#,
            change: { client, app in
                client.existing = .subscribed(number: 1)
                app.profile.confirmsRepeatedSubscriptions = false
            }, rejection: (nil, "Existing subscription to channel a")),
        Row(
            testDescription: "a repeated subscription, if the profile confirms them", request: #"{"channel":"a"}"#,
            change: { client, app in
                client.existing = .subscribed(number: 1)
                app.profile.confirmsRepeatedSubscriptions = true
            }),
        Row(
            testDescription: "a repeated subscription of version 2", request: #"{"channel":"a"}"#,
            change: { client, app in
                (client.existing, client.isVersion2) = (.subscribed(number: 1), true)
                app.profile.confirmsRepeatedSubscriptions = false
            }),
        Row(
            testDescription: "a subscription that awaits its hook", request: #"{"channel":"a"}"#,
            change: { client, app in
                (client.existing, client.isVersion2) = (.awaitingHook(WorkID(rawValue: 1)), true)
                app.profile.confirmsRepeatedSubscriptions = true
            }, rejection: (nil, "Existing subscription to channel a")),
        Row(
            testDescription: "one more channel than the limit", request: #"{"channel":"a"}"#,
            change: { ($0.subscriptionCount, $1.channelLimit) = (2, 2) },
            rejection: (nil, "The connection has 2 channels, which is the limit; unsubscribe from one first"), limit: "2 channels"),
        Row(
            testDescription: "the last channel within the limit", request: #"{"channel":"a"}"#,
            change: { ($0.subscriptionCount, $1.channelLimit) = (1, 2) }),
        Row(testDescription: "a signed private channel", request: signed("private-a")),
        Row(testDescription: "a private channel without a signature", request: #"{"channel":"private-a"}"#, rejection: unsigned),
        Row(
            testDescription: "a private channel with a wrong signature", request: #"{"channel":"private-a","auth":"key:00"}"#,
            rejection: unsigned),
        Row(
            testDescription: "a private channel that is signed for another connection", request: signed("private-a"),
            change: { client, _ in
                client = Client(connection: client.connection, socketID: "1.3")
            }, rejection: unsigned),
        Row(testDescription: "a private channel with signed data", request: signed("private-a", #"{"user_id":"anna"}"#)),
        Row(
            testDescription: "a private channel with data that isn't signed",
            request: signed("private-a", #"{"user_id":"anna"}"#, signsData: false), rejection: unsigned),
        Row(testDescription: "a private channel with empty data", request: signed("private-a", "", signsData: false)),
        Row(
            testDescription: "a private channel with data that soketi doesn't sign",
            request: signed("private-a", #"{"user_id":"anna"}"#, signsData: false), change: { $1.profile = .soketi }),
        Row(
            testDescription: "a presence channel with a member who isn't signed",
            request: signed("presence-a", #"{"user_id":"anna"}"#, signsData: false), change: { $1.profile = .soketi },
            rejection: (4009, "The connection is not authorized to subscribe to presence-a: missing or invalid signature")),
        Row(
            testDescription: "a presence channel with its member", request: signed("presence-a", #"{"user_id":"anna"}"#), user: "anna"),
        Row(
            testDescription: "a presence channel without a member", request: signed("presence-a"),
            rejection: (nil, "Presence channels require channel_data with a user_id")),
        Row(
            testDescription: "a presence channel of a client that is signed in", request: signed("presence-a"),
            change: { client, _ in client.user = PresenceUser(id: "bea", info: nil) }, user: "bea"),
        Row(
            testDescription: "a member whose ID is too long", request: signed("presence-a", #"{"user_id":"anna"}"#),
            change: { $1.userIDLimit = 3 }, rejection: (nil, "The user_id has 4 characters; it can have at most 3"),
            limit: "3 characters of a user ID"),
        Row(
            testDescription: "a member with too much information",
            request: signed("presence-a", #"{"user_id":"anna","user_info":{"n":1}}"#), change: { $1.userInfoLimit = 6 },
            rejection: (nil, "The user_info has 7 bytes; it can have at most 6"), limit: "6 bytes of a user_info"),
        Row(
            testDescription: "a member whose information is a text", request: signed("presence-a", #"{"user_id":"anna","user_info":"A"}"#),
            rejection: (nil, "The user_info must be a JSON object, such as {\"name\":\"Anna\"}")),
        Row(
            testDescription: "a member whose information is a text, for Reverb",
            request: signed("presence-a", #"{"user_id":"anna","user_info":"A"}"#), change: { $1.profile = .reverb }, user: "anna"),
        Row(
            testDescription: "a member without information", request: signed("presence-a", #"{"user_id":"anna","user_info":null}"#),
            user: "anna"),
        Row(
            testDescription: "a member with an empty ID", request: signed("presence-a", #"{"user_id":""}"#),
            rejection: (nil, "The user_id must not be empty")),
        Row(
            testDescription: "the channel of a user who isn't signed in", request: ##"{"channel":"#server-to-user-anna"}"##,
            rejection: (4009, "The connection is not signed in as anna, so it cannot subscribe to the user's events")),
        Row(
            testDescription: "the channel of the user", request: ##"{"channel":"#server-to-user-anna"}"##,
            change: { client, _ in client.user = PresenceUser(id: "anna", info: nil) }),
        Row(testDescription: "a filter without version 2", request: #"{"channel":"a","filter":{"key":"x"}}"#),
        Row(
            testDescription: "a filter that the app doesn't allow", request: #"{"channel":"a","filter":{"key":"x"}}"#,
            change: { client, _ in client.isVersion2 = true }, rejection: (nil, "Filters are not enabled")),
        Row(
            testDescription: "a filter", request: #"{"channel":"a","filter":{"key":"x","cmp":"eq","val":"1"}}"#,
            change: { ($0.isVersion2, $1.allowsFilters) = (true, true) }, hasFilter: true),
        Row(
            testDescription: "no filter", request: #"{"channel":"a","filter":null}"#,
            change: { ($0.isVersion2, $1.allowsFilters) = (true, true) }),
    ]

    @Test(arguments: table)
    func `a request is valid or says why not`(row: Row) throws {
        var client = Client(connection: ConnectionID(rawValue: 1), socketID: Self.socketID)
        var app = PusherApp(id: "1", key: "key", secret: "secret")
        row.change(&client, &app)
        let request = try SubscriptionRequest(try JSONValue(parsing: row.request))
        do throws(SubscriptionRequest.Rejection) {
            let attempt = try request.validated(for: client, app)
            expectNil(row.rejection)
            expect(attempt.channel == ByteString(request.channel) && attempt.connection == client.connection)
            expect(attempt.user?.id == row.user && (attempt.filter != nil) == row.hasFilter)
            expectEqual((attempt.existing == nil), (client.existing == nil))
        } catch {
            expect(error.message == row.rejection?.message && error.code == row.rejection?.code)
            expectEqual(error.limit, row.limit)
        }
    }

    @Test func `a profile repeats the signature of a rejected request`() throws {
        var app = PusherApp(id: "1", key: "key", secret: "secret")
        app.profile.quotesSignatures = true
        let request = try SubscriptionRequest(["channel": "private-a", "auth": "wrong"])
        let rejection = #expect(throws: SubscriptionRequest.Rejection.self) {
            try request.validated(for: Client(connection: ConnectionID(rawValue: 1), socketID: "1.2"), app)
        }
        expectEqual(rejection?.quotation, "Invalid signature: Expected HMAC SHA256 hex digest of 1.2:private-a, but got wrong")
    }

    @Test func `a request without a channel is an invalid frame`() {
        #expect(throws: PusherFrameError.self) { try SubscriptionRequest(["auth": "key:00"]) }
    }
}
