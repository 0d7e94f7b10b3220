import CommonNames
import PrimusClient
import PrimusServer
import PrimusSwift
import PrimusTesting
import PusherChannels
import PusherServer
import PusherTesting
import RealtimeCoding
import RealtimeTesting
import SignalRHubs
import SignalRServer
import SignalRTesting
import TestSupport
import Testing

/// Checks that public names do not collide with common names of other packages. An ambiguous name does not compile.
///
/// All products are imported, except those with the names of other packages.
@Suite struct NameCollisionTests {
    /// `PusherSwift` and `SignalRClient` have the names of the packages that they replace. The core and the sockets have names that
    /// transports of an application use, such as `HTTPHeaders`; the products of the protocols export a part of them.
    @Test func `all products but those with the names of other packages are imported`() throws {
        let manifest = try Snippets.lines(ofFile: "Package.swift").joined(separator: "\n")
        let list = try #require(manifest.firstMatch(of: /let libraries: [^=]*= \[\n(?<rows>.*?)\n\]/.dotMatchesNewlines())).rows
        let products = list.matches(of: /\(\"(?<name>\w+)\", \[/).map { String($0.name) }
        #expect(products.count >= 16)
        let imports = try Snippets.lines(ofFile: "Tests/Documentation/SnippetTests/NameCollisionTests.swift").compactMap { line in
            line.hasPrefix("import ") ? String(line.dropFirst(7)) : nil
        }
        let others = ["PusherSwift", "SignalRClient", "RealtimeCore", "RealtimeSockets"]
        #expect(Set(products).subtracting(imports).sorted() == others.sorted())
    }

    @Test func `common names of other packages are unambiguous next to an import of this package`() {
        let names: [Any.Type] = [
            ByteBuffer.self, (any Channel).self, (any ChannelHandler).self, (any EventLoop).self, (any EventLoopGroup).self,
            EventLoopFuture.self, EventLoopPromise.self, SocketAddress.self, TimeAmount.self, Scheduled.self, HTTPHeaders.self,
            HTTPRequestHead.self, HTTPResponseHead.self, HTTPMethod.self, HTTPVersion.self, HTTPResponseStatus.self,
            WebSocketFrame.self, WebSocketErrorCode.self, WebSocketOpcode.self, TLSConfiguration.self, TLSVersion.self,
            HTTPRequest.self, HTTPResponse.self, HTTPField.self, HTTPFields.self,
            Logger.self, (any LogHandler).self, LogLevel.self, Counter.self, Recorder.self, Timer.self, (any Service).self,
            Application.self, Authenticator.self, Authorizer.self, Client.self, Environment.self, Request.self,
            (any Responder).self, Response.self, Route.self, Router.self, WebSocket.self, WebSocketClient.self,
            ConnectionState.self, ConnectionID.self, Event.self, Listener.self, Lock.self, Member.self, Message.self,
            SubscriptionState.self,
        ]
        #expect(Set(names.map { "\($0)" }).count == names.count)
    }

    @Test func `no public name stands for types of two products`() throws {
        let dropIns = ["PusherSwift", "NWWebSocket"]
        var modules: [String: [String]] = [:]
        let files = try Snippets.paths(below: "Sources", ".swift").map { $0.split(separator: "/") }
        for folder in Set(files.filter { $0.count > 3 }.map { "\($0[0])/\($0[1])/\($0[2])" }).sorted() {
            guard !dropIns.contains(where: folder.hasSuffix) else { continue }
            for name in try PublicDeclarations.types(in: folder) where !name.contains(".") { modules[name, default: []].append(folder) }
        }
        #expect(modules.count > 150)
        for (name, folders) in modules where folders.count > 1 { Issue.record("\(name) is declared in \(folders)") }
    }
}
