import Foundation
import PusherServer
import PusherSwift
import PusherWire
import RealtimeTesting
import TestSupport
import Testing

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

// The Swift snippets of the READMEs of PusherSwift 6 and 9, as an application contains them. This file is compiled in Swift 5 and in Swift 6
// mode. The snippets run with the server of this package: a function `Pusher` in front of each creates a client with the address of the server,
// instead of that of the service, and `print` records what it would print. The format is that of this package. What else differs from the READMEs is in comments, which begin with
// "README:".

// MARK: Definitions that the READMEs print

// README: the definitions are public, and protocols as types are written without `any`, which one of this package's checks requires.

/// The definitions of the library, as the READMEs print them. They compile with the types of this library.
private enum PrintedDefinitions {
    enum AuthMethod {
        case endpoint(authEndpoint: String)
        case authRequestBuilder(authRequestBuilder: any AuthRequestBuilderProtocol)
        case inline(secret: String)
        case authorizer(authorizer: any Authorizer)
        case noMethod
    }

    class PusherAuth: NSObject {
        let auth: String
        let channelData: String?
        let sharedSecret: String?

        init(auth: String, channelData: String? = nil, sharedSecret: String? = nil) {
            self.auth = auth
            self.channelData = channelData
            self.sharedSecret = sharedSecret
        }
    }

    enum Version6 {
        class PusherAuth: NSObject {
            let auth: String
            let channelData: String?

            init(auth: String, channelData: String? = nil) {
                self.auth = auth
                self.channelData = channelData
            }
        }
    }
}

private protocol PrintedAuthRequestBuilderProtocol {
    func requestFor(socketID: String, channelName: String) -> URLRequest?
}

private protocol PrintedAuthorizer {
    func fetchAuthValue(socketID: String, channelName: String, completionHandler: (PusherAuth?) -> ())
}

// README: a list of functions with `@objc optional`, which Linux doesn't have.
private protocol PrintedPusherDelegate {
    func changedConnectionState(from old: ConnectionState, to new: ConnectionState)
    func subscribedToChannel(name: String)
    func failedToSubscribeToChannel(name: String, response: URLResponse?, data: String?, error: NSError?)
    func debugLog(message: String)
    func receivedError(error: PusherError)
    func failedToDecryptEvent(eventName: String, channelName: String, data: String?)
}

/// An object with the functions in the form in which the READMEs print the protocols.
private final class PrintedForms: AuthRequestBuilderProtocol, PrintedAuthRequestBuilderProtocol, Authorizer, PrintedAuthorizer {
    func requestFor(socketID: String, channelName: String) -> URLRequest? { nil }
    func fetchAuthValue(socketID: String, channelName: String, completionHandler: (PusherAuth?) -> ()) {
        completionHandler(PusherAuth(auth: "key:signature"))
    }
}

// MARK: Delegates

/// Stands for UIKit, which isn't available on all platforms. Its class belongs to the main actor as well.
@MainActor class UIViewController {
    func viewDidLoad() {}
}

// README: `// ...` is an assertion of the test, and the client is stored, as the README asks for elsewhere.
private final class ViewController: UIViewController, PusherDelegate {
    var make: (() -> Pusher)?
    var pusher: Pusher?

    override func viewDidLoad() {
        super.viewDidLoad()
        let pusher = self.make!()
        pusher.connection.delegate = self
        self.pusher = pusher
    }
}

private final class DummyDelegate: PusherDelegate, PrintedPusherDelegate {
    let calls = EventRecorder<String>()

    func changedConnectionState(from old: ConnectionState, to new: ConnectionState) {
        self.calls.record("\(old.stringValue()) → \(new.stringValue())")
    }

    func debugLog(message: String) {
        self.calls.record("log")
    }

    func subscribedToChannel(name: String) {
        self.calls.record("subscribed \(name)")
    }

    func failedToSubscribeToChannel(name: String, response: URLResponse?, data: String?, error: NSError?) {
        self.calls.record("failed \(name)")
    }

    func receivedError(error: PusherError) {
        let message = error.message
        if let code = error.code {
            self.calls.record("error \(code) \(message)")
        }
    }

    func failedToDecryptEvent(eventName: String, channelName: String, data: String?) {
        self.calls.record("undecryptable \(eventName)")
    }
}

/// The delegate of presence channels.
private final class PresenceDelegate: PusherDelegate {
    let output = EventRecorder<String>()
    // README: `pusher` is declared below the class.
    weak var pusher: Pusher?

    func print(_ value: Any?) { self.output.record("\(value!)") }

    func subscribedToChannel(name: String) {
        // README: the parameter is called `name`.
        let channelName = name
        if channelName == "presence-channel" {
            if let presChan = pusher!.connection.channels.findPresence(channelName) {
                // in here you can now have access to the channel's members and myId properties
                print(presChan.members)
                print(presChan.myId)
            }
        }
    }
}

// README: `channel.name` isn't declared. The URL is that of the test.
private final class AuthRequestBuilder: AuthRequestBuilderProtocol {
    let origin: String

    init(_ origin: String) { self.origin = origin }

    func requestFor(socketID: String, channelName: String) -> URLRequest? {
        var request = URLRequest(url: URL(string: "\(self.origin)/builder")!)
        request.httpMethod = "POST"
        request.httpBody = "socket_id=\(socketID)&channel_name=\(channelName)".data(using: String.Encoding.utf8)
        request.addValue("myToken", forHTTPHeaderField: "Authorization")
        return request
    }
}

/// The builder of version 5, with an object for the channel.
private final class OldAuthRequestBuilder: AuthRequestBuilderProtocol {
    let origin: String

    init(_ origin: String) { self.origin = origin }

    func requestFor(socketID: String, channel: PusherChannel) -> NSMutableURLRequest? {
        let request = NSMutableURLRequest(url: URL(string: "\(self.origin)/builder")!)
        request.httpMethod = "POST"
        request.httpBody = "socket_id=\(socketID)&channel_name=\(channel.name)".data(using: String.Encoding.utf8)
        return request
    }
}

// README: commas after the properties of the struct.
private struct PriceUpdate: Codable {
    /// The company.
    public let company: String
    /// The price.
    public let price: Int
}

@Suite(.usesSockets, .timeLimit(.minutes(10))) struct ReadmeTests {
    // MARK: Configuration

    @Test func `the definitions that the READMEs print compile`() {
        let forms = PrintedForms()
        var auth: PusherAuth?
        forms.fetchAuthValue(socketID: "1.1", channelName: "private-a") { auth = $0 }
        #expect(auth?.auth == "key:signature" && auth?.channelData == nil && auth?.sharedSecret == nil)
        #expect(forms.requestFor(socketID: "1.1", channelName: "private-a") == nil)
        let printed = PrintedDefinitions.PusherAuth(auth: "key:signature", channelData: "{}", sharedSecret: "key")
        #expect(printed.auth == "key:signature" && printed.channelData == "{}" && printed.sharedSecret == "key")
        let old = PrintedDefinitions.Version6.PusherAuth(auth: "key:signature", channelData: "{}")
        #expect(old.auth == "key:signature" && old.channelData == "{}")
        let delegate = DummyDelegate()
        (delegate as any PrintedPusherDelegate).subscribedToChannel(name: "a")
        #expect(delegate.calls.all == ["subscribed a"])
        if case .authorizer = PrintedDefinitions.AuthMethod.authorizer(authorizer: forms) {} else { Issue.record("another method") }
        // The functions of the classes for Objective-C.
        _ = [
            OCAuthMethod(authEndpoint: "https://your.authendpoint/pusher/auth"), OCAuthMethod(authRequestBuilder: forms),
            OCAuthMethod(secret: "YOUR_APP_SECRET"), OCAuthMethod(),
        ]
        #expect(PusherHost.fromObjc(source: OCPusherHost(cluster: "eu")).stringValue == "ws-eu.pusher.com")
        #expect(PusherHost.fromObjc(source: OCPusherHost(host: "h")).stringValue == "h")
        if case .inline("YOUR_APP_SECRET") = AuthMethod.fromObjc(source: AuthMethod.inline(secret: "YOUR_APP_SECRET").toObjc()) {
        } else {
            Issue.record("another method")
        }
    }

    @Test func `the options name a cluster, and have the settings of all versions`() {
        let options = PusherClientOptions(
            host: .cluster("eu")
        )
        #expect(options.host == "ws-eu.pusher.com" && options.port == 443 && options.useTLS && options.encrypted)
        let old = PusherClientOptions(
            authMethod: .noMethod, attemptToReturnJSONObject: true, autoReconnect: true, host: .defaultHost, port: 80, encrypted: false,
            activityTimeout: 60)
        #expect(!old.useTLS && old.port == 80 && old.activityTimeout == 60)
    }

    @Test func `private channels are authorized by an endpoint`() async throws {
        try await ReadmeServer.with(key: "APP_KEY") { server in
            func Pusher(key: String, options: PusherClientOptions) -> Pusher { server.pusher(options) }

            let options = PusherClientOptions(
                authMethod: .endpoint(authEndpoint: "http://localhost:9292/pusher/auth")
            )

            let pusher = Pusher(key: "APP_KEY", options: options)

            pusher.connect()
            let myPrivateChannel = pusher.subscribe("private-my-channel")
            try await eventually { myPrivateChannel.subscribed }
            #expect(server.attempts.all.map(\.channel) == ["private-my-channel"])
        }
    }

    @Test func `private channels are authorized by requests of the app`() async throws {
        try await ReadmeServer.with(key: "APP_KEY") { server in
            func Pusher(key: String, options: PusherClientOptions) -> Pusher { server.pusher(options) }

            let options = PusherClientOptions(
                authMethod: AuthMethod.authRequestBuilder(authRequestBuilder: AuthRequestBuilder(server.origin))
            )
            let pusher = Pusher(
                key: "APP_KEY",
                options: options
            )

            pusher.connect()
            let chan = pusher.subscribe("private-my-channel")
            try await eventually { chan.subscribed }
            #expect(server.attempts.all.first?.request.headers["Authorization"] == "myToken")

            let old = Pusher(
                key: "APP_KEY",
                options: PusherClientOptions(
                    authMethod: .authRequestBuilder(authRequestBuilder: OldAuthRequestBuilder(server.origin)))
            )
            old.connect()
            let oldChan = old.subscribe("private-old-channel")
            try await eventually { oldChan.subscribed }
        }
    }

    // MARK: Connection

    @Test func `a client connects, and its delegate is informed`() async throws {
        try await ReadmeServer.with(key: "APP_KEY") { server in
            func Pusher(key: String) -> Pusher { server.pusher(PusherClientOptions()) }

            let pusher = Pusher(key: "APP_KEY")
            pusher.connect()

            let delegate = DummyDelegate()
            pusher.delegate = delegate
            try await eventually { pusher.connection.connectionState == .connected }
            try await eventually { server.server.socketIDs == [pusher.connection.socketId] }
            server.send(#"{"event":"pusher:error","data":{"code":4301,"message":"no client events"}}"#, to: pusher)
            try await eventually { delegate.calls.all.contains("error 4301 no client events") }
            #expect(delegate.calls.all.contains("log"))
            #expect(pusher.connection.reconnectAttemptsMax == nil && pusher.connection.maxReconnectGapInSeconds == 120)
            pusher.connection.reconnectAttemptsMax = 6
            pusher.connection.maxReconnectGapInSeconds = nil
            pusher.disconnect()
            try await eventually { delegate.calls.all.last { $0.hasSuffix("→ disconnected") } != nil }
        }
    }

    @MainActor @Test func `a view controller is the delegate of the connection`() {
        let controller = ViewController()
        controller.make = { Pusher(key: "APP_KEY") }
        controller.viewDidLoad()
        #expect(controller.pusher?.connection.delegate === controller && controller.pusher?.delegate === controller)
        #expect(controller.pusher?.connection.connectionState == .disconnected)
    }

    @Test func `a function returns the data of the user`() async throws {
        try await ReadmeServer.with(key: "APP_KEY") { server in
            func Pusher(key: String) -> Pusher { server.pusher(PusherClientOptions(authMethod: .inline(secret: "secret"))) }

            let pusher = Pusher(key: "APP_KEY")

            pusher.connection.userDataFetcher = { () -> PusherPresenceChannelMember in
                return PusherPresenceChannelMember(userId: "123", userInfo: ["twitter": "hamchapman"])
            }

            pusher.connect()
            let chan = pusher.subscribeToPresenceChannel("presence-channel")
            try await eventually { chan.me() != nil }
            #expect(chan.myId == "123" && chan.me()?.userId == "123")
            #expect((chan.me()?.userInfo as? [String: AnyObject])?["twitter"] as? String == "hamchapman")
        }
    }

    // MARK: Subscribing

    @Test func `public, private and presence channels are subscribed`() async throws {
        try await ReadmeServer.with { server in
            let pusher = server.pusher(PusherClientOptions())
            do {
                let myChannel = pusher.subscribe("my-channel")
                #expect(myChannel.name == "my-channel")
            }
            do {
                let myPrivateChannel = pusher.subscribe("private-my-channel")
                #expect(myPrivateChannel.type == .private)
            }
            do {
                let myPresenceChannel = pusher.subscribeToPresenceChannel(channelName: "presence-my-channel")
                #expect(myPresenceChannel.members.isEmpty)
            }
            do {
                let myPresenceChannel = pusher.subscribe("presence-my-channel")
                #expect(myPresenceChannel is PusherPresenceChannel)
            }
            do {
                let privateEncryptedChannel = pusher.subscribe(channelName: "private-encrypted-my-channel")
                #expect(privateEncryptedChannel.type == .private)
            }
            pusher.connect()
            try await eventually { pusher.connection.channels.channels.values.filter(\.subscribed).count == 4 }
        }
    }

    @Test func `an encrypted channel delivers decrypted events`() async throws {
        try await ReadmeServer.with { server in
            let pusher = server.pusher(PusherClientOptions())
            let delegate = DummyDelegate()
            pusher.delegate = delegate
            let data = EventRecorder<String?>()
            let privateEncryptedChannel = pusher.subscribe(channelName: "private-encrypted-my-channel")
            privateEncryptedChannel.bind(eventName: "price") { data.record($0.data) }
            pusher.connect()
            try await eventually { privateEncryptedChannel.subscribed }
            server.server.publish("price", to: "private-encrypted-my-channel", data: #"{"value":1}"#)
            try await eventually { data.all == [#"{"value":1}"#] }
            server.send(#"{"event":"other","channel":"private-encrypted-my-channel","data":"{}"}"#, to: pusher)
            try await eventually { delegate.calls.all.contains("undecryptable other") }
        }
    }

    @Test func `functions are called with members who join and leave`() async throws {
        try await ReadmeServer.with { server in
            let output = EventRecorder<String>()
            let pusher = server.pusher(PusherClientOptions())
            @Sendable func print(_ member: PusherPresenceChannelMember) { output.record(member.userId) }

            let onMemberChange = { (member: PusherPresenceChannelMember) in
                print(member)
            }

            let chan = pusher.subscribeToPresenceChannel("presence-channel", onMemberAdded: onMemberChange, onMemberRemoved: onMemberChange)

            pusher.connect()
            try await eventually { chan.subscribed }
            let other = server.pusher(PusherClientOptions())
            other.subscribe("presence-channel")
            other.connect()
            try await eventually { output.all.count == 1 && chan.members.count == 2 }
            other.disconnect()
            try await eventually { output.all.count == 2 && chan.members.count == 1 }
            #expect(Set(output.all).count == 1)
        }
    }

    // MARK: Presence

    @available(*, deprecated)
    @Test func `the members are available when a subscription has succeeded`() async throws {
        try await ReadmeServer.with { server in
            func Pusher(key: String) -> Pusher { server.pusher(PusherClientOptions()) }
            let output = EventRecorder<String>()
            @Sendable func print(_ text: String) { output.record(text) }

            let pusher = Pusher(key: "YOUR_APP_KEY")

            let chan = pusher.subscribeToPresenceChannel("presence-channel")

            // README: the optional ID is printed with a description, which avoids a warning of the compiler.
            chan.bind(
                eventName: "pusher:subscription_succeeded",
                callback: { data in
                    print("Subscribed!")
                    print("I can now access myId: \(chan.myId ?? "nil")")
                    print("And here are the channel members: \(chan.members)")
                })

            chan.bind(
                eventName: "pusher:subscription_succeeded",
                eventCallback: { event in
                    print("Subscribed!")
                    print("I can now access myId: \(chan.myId ?? "nil")")
                    print("And here are the channel members: \(chan.members)")
                })

            pusher.connect()
            try await eventually { output.all.count == 6 }
            #expect(output.all[0] == "Subscribed!" && output.all[4] == "I can now access myId: \(pusher.connection.socketId ?? "")")
            #expect(chan.members.map(\.userId) == [chan.myId])
        }
    }

    @Test func `a delegate is informed of subscriptions`() async throws {
        try await ReadmeServer.with { server in
            func Pusher(key: String) -> Pusher { server.pusher(PusherClientOptions()) }
            // README: the delegate is created in the assignment, and so released immediately.
            let delegate = PresenceDelegate()

            let pusher = Pusher(key: "YOUR_APP_KEY")
            pusher.connection.delegate = delegate
            let chan = pusher.subscribeToPresenceChannel("presence-channel")

            delegate.pusher = pusher
            pusher.connect()
            try await eventually { delegate.output.all.count == 2 }
            #expect(delegate.output.all.last == chan.myId)
        }
    }

    @Test func `an authorization is passed with the subscription`() async throws {
        try await ReadmeServer.with(key: "app-key") { server in
            let signer = server.pusher(PusherClientOptions(authMethod: .inline(secret: "secret")))
            signer.connect()
            try await eventually { signer.connection.connectionState == .connected }
            let socketID = signer.connection.socketId!
            let signed = ChannelSignature.token(key: "app-key", secret: "secret", socketID: socketID, channel: "private-a")
            let (yourAuthString, yourOptionalChannelDataString, channelName) = (signed, String?.none, "private-a")
            let pusher = signer

            let pusherAuth = PusherAuth(auth: yourAuthString, channelData: yourOptionalChannelDataString)
            // README: `self.pusher`.
            let chan = pusher.subscribe(channelName, auth: pusherAuth)

            try await eventually { chan.subscribed }
        }
    }

    // MARK: Binding

    @available(*, deprecated)
    @Test func `handlers of a channel receive its events`() async throws {
        try await ReadmeServer.with { server in
            func Pusher(key: String) -> Pusher { server.pusher(PusherClientOptions()) }
            let output = EventRecorder<String>()
            @Sendable func print(_ text: String) { output.record(text) }

            let pusher = Pusher(key: "YOUR_APP_KEY")
            let myChannel = pusher.subscribe("my-channel")

            myChannel.bind(
                eventName: "new-price",
                eventCallback: { (event: PusherEvent) -> Void in
                    if let data: String = event.data {
                        // `data` is a string that you can parse if necessary.
                        output.record(data)
                    }
                })

            // README: `company = …` without `let`, as in Swift 2.
            myChannel.bind(
                eventName: "new-price",
                callback: { (data: Any?) -> Void in
                    if let data = data as? [String: AnyObject] {
                        if let price = data["price"] as? String, let company = data["company"] as? String {
                            print("\(company) is now priced at \(price)")
                        }
                    }
                })

            pusher.connect()
            try await eventually { myChannel.subscribed }
            server.server.publish("new-price", to: "my-channel", data: #"{"price":"12","company":"ACME"}"#)
            try await eventually { output.all == [#"{"price":"12","company":"ACME"}"#, "ACME is now priced at 12"] }
        }
    }

    @available(*, deprecated)
    @Test func `handlers of a client receive the events of all channels`() async throws {
        try await ReadmeServer.with { server in
            func Pusher(key: String) -> Pusher { server.pusher(PusherClientOptions()) }
            let output = EventRecorder<String>()
            @Sendable func print(_ text: String) { output.record(text) }

            let pusher = Pusher(key: "YOUR_APP_KEY")
            pusher.subscribe("my-channel")

            pusher.bind(eventCallback: { (event: PusherEvent) -> Void in
                if let data: String = event.data {
                    // `data` is a string that you can parse if necessary.
                    if event.eventName == "comment" { output.record(data) }
                }
            })

            // README: `event` is optional, so it has no subscript; and `message = …` without `let`, as in Swift 2.
            pusher.bind(callback: { (event: Any?) -> Void in
                let event = event as? [String: AnyObject] ?? [:]
                if let data = event["data"] as? [String: AnyObject] {
                    if let commenter = data["commenter"] as? String, let message = data["message"] as? String {
                        print("\(commenter) wrote \(message)")
                    }
                }
            })

            pusher.connect()
            try await eventually { pusher.connection.channels.find("my-channel")?.subscribed == true }
            // The handler expects an object in the frame. The service sends text, which arrives as text.
            server.send(#"{"event":"comment","channel":"my-channel","data":{"commenter":"Anna","message":"hello"}}"#, to: pusher)
            try await eventually { output.all == [#"{"commenter":"Anna","message":"hello"}"#, "Anna wrote hello"] }
        }
    }

    @Test func `events are decoded`() async throws {
        try await ReadmeServer.with { server in
            func Pusher(key: String) -> Pusher { server.pusher(PusherClientOptions()) }
            let output = EventRecorder<String>()
            @Sendable func print(_ text: String) { output.record(text) }
            do {
                let pusher = Pusher(key: "YOUR_APP_KEY")
                let myChannel = pusher.subscribe("my-channel")
                let decoder = JSONDecoder()

                myChannel.bind(
                    eventName: "price-update",
                    eventCallback: { (event: PusherEvent) -> Void in
                        guard let json: String = event.data,
                            let jsonData: Data = json.data(using: .utf8)
                        else {
                            print("Could not convert JSON string to data")
                            return
                        }
                        let decoded = try? decoder.decode(PriceUpdate.self, from: jsonData)
                        guard let priceUpdate = decoded else {
                            print("Could not decode price update")
                            return
                        }
                        print("\(priceUpdate.company) is now priced at \(priceUpdate.price)")
                    })

                pusher.connect()
                try await eventually { myChannel.subscribed }
                server.server.publish("price-update", to: "my-channel", data: #"{"company":"ACME","price":12}"#)
                server.server.publish("price-update", to: "my-channel", data: "no price")
                try await eventually { output.all == ["ACME is now priced at 12", "Could not decode price update"] }
            }
            do {
                let pusher = Pusher(key: "YOUR_APP_KEY")
                let myChannel = pusher.subscribe("my-channel")

                myChannel.bind(
                    eventName: "price-update",
                    eventCallback: { (event: PusherEvent) -> Void in
                        guard let json: String = event.data,
                            let jsonData: Data = json.data(using: .utf8)
                        else {
                            print("Could not convert JSON string to data")
                            return
                        }
                        let decoded = try? JSONSerialization.jsonObject(with: jsonData, options: []) as? [String: Any]
                        guard let priceUpdate = decoded else {
                            print("Could not decode price update")
                            return
                        }
                        if let company = priceUpdate["company"] as? String, let price = priceUpdate["price"] as? String {
                            print("\(company) is now priced at \(price)")
                        }
                    })

                pusher.connect()
                try await eventually { myChannel.subscribed }
                server.server.publish("price-update", to: "my-channel", data: #"{"company":"ACME","price":"13"}"#)
                try await eventually { output.all.last == "ACME is now priced at 13" }
            }
        }
    }

    @available(*, deprecated)
    @Test func `errors reach the handlers of a client`() async throws {
        try await ReadmeServer.with { server in
            let pusher = server.pusher(PusherClientOptions())
            let output = EventRecorder<String>()
            @Sendable func print(_ text: String) { output.record(text) }

            // README: `where` and conditions without `let`, as in Swift 2.
            pusher.bind({ (message: Any?) in
                if let message = message as? [String: AnyObject], let eventName = message["event"] as? String, eventName == "pusher:error" {
                    if let data = message["data"] as? [String: AnyObject], let errorMessage = data["message"] as? String {
                        print("Error message: \(errorMessage)")
                    }
                }
            })

            pusher.connect()
            try await eventually { pusher.connection.connectionState == .connected }
            server.send(
                #"{"event":"pusher:error","data":{"code":null,"message":"Existing subscription to channel presence-channel"}}"#, to: pusher)
            try await eventually { output.all == ["Error message: Existing subscription to channel presence-channel"] }
        }
    }

    @Test func `handlers are removed, and client events are sent`() async throws {
        try await ReadmeServer.with { server in
            func Pusher(key: String) -> Pusher { server.pusher(PusherClientOptions()) }
            let output = EventRecorder<String>()

            let pusher = Pusher(key: "YOUR_APP_KEY")
            let myChannel = pusher.subscribe("my-channel")

            let eventHandlerId = myChannel.bind(
                eventName: "new-price",
                eventCallback: { (event: PusherEvent) -> Void in
                    output.record("removed handler")
                })

            myChannel.unbind(eventName: "new-price", callbackId: eventHandlerId)

            let chan = pusher.subscribe("private-my-channel")
            let other = server.pusher(PusherClientOptions())
            let received = other.subscribe("private-my-channel")
            received.bind(eventName: "client-myEvent") { output.record($0.data ?? "") }
            other.connect()
            try await eventually { received.subscribed }

            chan.trigger(eventName: "client-myEvent", data: ["myName": "Bob"])

            pusher.connect()
            try await eventually { myChannel.subscribed }
            server.server.publish("new-price", to: "my-channel", data: "1")
            try await eventually { output.all == [#"{"myName":"Bob"}"#] }
            myChannel.unbindAll()
            pusher.unbindAll()
            #expect(myChannel.eventHandlers.isEmpty)
        }
    }
}
