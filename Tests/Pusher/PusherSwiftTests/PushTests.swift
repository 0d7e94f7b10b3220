import Foundation
import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherSwift

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// A stand-in for the service for push notifications.
private final class PushService: ListenerHandler {
    struct Call: Equatable { var method: String, target: String, body: String }

    let calls = EventRecorder<Call>()
    let headers = EventRecorder<HTTPHeaders>()
    /// The status of the next responses.
    let status = Lock(200)
    /// The next responses; `nil` for those of the service.
    let page = Lock<String?>(nil)

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        self.calls.record(Call(method: request.method, target: request.target, body: String(decoding: body, as: UTF8.self)))
        self.headers.record(request.headers)
        let status = self.status.withLock { $0 }
        let page = self.page.withLock { $0 }
        responder.respond(HTTPResponse(status: status, text: page ?? (status == 200 ? #"{"id":"client-1"}"# : "no")))
    }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .reject(HTTPResponse(status: 404)) }
}

private final class PushDelegate: PusherDelegate {
    let calls = EventRecorder<String>()

    func registeredForPushNotifications(clientId: String) { self.calls.record("registered \(clientId)") }
    func failedToRegisterForPushNotifications(response: URLResponse, responseBody: String?) {
        self.calls.record("not registered \((response as? HTTPURLResponse)?.statusCode ?? 0) \(responseBody ?? "")")
    }
    func subscribedToInterest(name: String) { self.calls.record("+\(name)") }
    func subscribedToInterests(interests: [String]) { self.calls.record("=\(interests.joined(separator: ","))") }
    func unsubscribedFromInterest(name: String) { self.calls.record("-\(name)") }
}

@MainActor @Suite struct PushTests {
    /// A client that isn't connected, the service and a clock.
    private struct Fixture {
        let memory: InMemory
        let service = PushService()
        let delegate = PushDelegate()
        let pusher: Pusher

        @MainActor init(path: String = "/v1") async throws {
            self.memory = try await InMemory()
            let address = try await self.memory.network.listener(host: "push", port: 80).start(self.service)
            let options = self.memory.options()
            options.pushServiceURL = try #require(URL(string: "http://\(address.host)\(path)"))
            self.pusher = self.memory.pusher(options)
            self.pusher.delegate = self.delegate
        }
    }

    @Test func `a device registers, and its interests follow in the order of the calls`() async throws {
        let fixture = try await Fixture(path: "/client_api/v1/")
        let (service, delegate, pusher) = (fixture.service, fixture.delegate, fixture.pusher)
        pusher.nativePusher.subscribe(interestName: "donuts")
        pusher.nativePusher.unsubscribe(interestName: "a b/c")
        pusher.nativePusher.setSubscriptions(interests: ["x", "y"])
        expect(service.calls.all.isEmpty)
        pusher.nativePusher.register(deviceToken: Data([0x00, 0x0F, 0xAB]))
        try await eventually { delegate.calls.all == ["registered client-1", "+donuts", "-a b/c", "=x,y"] }
        let path = "/client_api/v1/clients"
        expectEqual(
            service.calls.all,
            [
                .init(method: "POST", target: path, body: #"{"app_key":"key","platform_type":"apns","token":"000fab"}"#),
                .init(method: "POST", target: "\(path)/client-1/interests/donuts", body: #"{"app_key":"key"}"#),
                .init(method: "DELETE", target: "\(path)/client-1/interests/a%20b%2Fc", body: #"{"app_key":"key"}"#),
                .init(method: "PUT", target: "\(path)/client-1/interests/", body: #"{"app_key":"key","interests":["x","y"]}"#),
            ])
        expect(service.headers.all.allSatisfy { $0["Content-Type"] == "application/json" })
        expect(service.headers.all.allSatisfy { $0["X-Pusher-Library"]?.hasPrefix("pusher-websocket-swift") == true })
    }

    @Test func `a request that fails is repeated with growing delays`() async throws {
        let fixture = try await Fixture()
        let (memory, service, delegate, pusher) = (fixture.memory, fixture.service, fixture.delegate, fixture.pusher)
        service.status.withLock { $0 = 500 }
        pusher.nativePusher.register(deviceToken: Data([1]))
        for (index, delay) in [1, 4, 9].enumerated() {
            try await eventually { delegate.calls.all.count == index + 1 && memory.clock.untilNextDeadline == .seconds(delay) }
            if delay == 9 { service.status.withLock { $0 = 200 } }
            memory.clock.advance(by: .seconds(delay))
        }
        try await eventually { delegate.calls.all.last == "registered client-1" }
        expectEqual(delegate.calls.all.first, "not registered 500 no")
    }

    @Test func `a page of a proxy is a failure, and the request is repeated`() async throws {
        let fixture = try await Fixture()
        let (memory, service, delegate, pusher) = (fixture.memory, fixture.service, fixture.delegate, fixture.pusher)
        pusher.nativePusher.register(deviceToken: Data([1]))
        try await eventually { delegate.calls.all == ["registered client-1"] }
        service.page.withLock { $0 = "<html>Sign in</html>" }
        pusher.nativePusher.subscribe(interestName: "donuts")
        try await eventually { service.calls.all.count == 2 && memory.clock.untilNextDeadline == .seconds(1) }
        service.page.withLock { $0 = nil }
        memory.clock.advance(by: .seconds(1))
        try await eventually { delegate.calls.all == ["registered client-1", "+donuts"] }
    }

    @Test func `requests are sent one after the other, and pause after six failures`() throws {
        var (queue, now) = (PushQueue(), Instant(nanoseconds: 0))
        var next = queue.setAppKey("k")
        expectNil(next)
        next = queue.add(.subscribe("a"))
        expectNil(next)
        next = queue.register(token: "t")
        expect(next?.0 == 1 && next?.1 == .register(appKey: "k", token: "t"))
        next = queue.add(.unsubscribe("b"))
        expectNil(next)
        let registered = queue.registered(1, clientID: "c")
        expect(
            registered.isCurrent && registered.next?.0 == 2
                && registered.next?.1 == .change(.subscribe("a"), appKey: "k", clientID: "c"))
        // A late result has no effect.
        let late = (queue.registered(1, clientID: "d").isCurrent, queue.changed(1).change, queue.failed(1, now: now))
        expect(!late.0 && late.1 == nil && !late.2)
        var number = 2
        var isCurrent = false
        for failures in 1...5 {
            isCurrent = queue.failed(number, now: now)
            let deadline = try #require(queue.nextDeadline)
            expect(isCurrent && now.duration(to: deadline) == .seconds(failures * failures))
            next = queue.timeout(now: now)
            expectNil(next)
            now = deadline
            next = queue.timeout(now: now)
            number = try #require(next?.0)
        }
        isCurrent = queue.failed(number, now: now)
        expect(isCurrent && queue.nextDeadline == nil)
        next = queue.add(.set([]))
        expectEqual(next?.1, .change(.subscribe("a"), appKey: "k", clientID: "c"))
        let done = queue.changed(try #require(next?.0))
        expect(done.change == .subscribe("a") && done.next?.1 == .change(.unsubscribe("b"), appKey: "k", clientID: "c"))
    }

    @Test func `a token that is set during the registration of another one is registered next`() {
        var queue = PushQueue()
        var next = queue.setAppKey("k")
        next = queue.register(token: "old")
        expectEqual(next?.0, 1)
        for token in ["other", "new"] {
            next = queue.register(token: token)
            expectNil(next)
        }
        next = queue.add(.subscribe("a"))
        expectNil(next)
        let first = queue.registered(1, clientID: "c")
        expect(first.isCurrent && first.next?.0 == 2 && first.next?.1 == .register(appKey: "k", token: "new"))
        // The same token again isn't another one.
        next = queue.register(token: "new")
        let second = queue.registered(2, clientID: "d")
        expect(second.isCurrent && second.next?.1 == .change(.subscribe("a"), appKey: "k", clientID: "d"))
        let done = queue.changed(3)
        expect(done.change == .subscribe("a") && done.next == nil)
        // During a change, too.
        next = queue.add(.subscribe("b"))
        next = queue.register(token: "newer")
        expectNil(next)
        let changed = queue.changed(4)
        expectEqual(changed.next?.1, .register(appKey: "k", token: "newer"))
    }
}
