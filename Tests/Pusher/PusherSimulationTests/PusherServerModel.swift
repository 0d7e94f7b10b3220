@testable import PusherServer
import PusherChannels
import PusherWire
import RealtimeCore
import RealtimeEncoding
import SimulationSupport

/// The Pusher server and the application's server, which authorizes subscriptions, on a virtual network.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
final class PusherServerModel: SimulatedServer, @unchecked Sendable {
    static let app = PusherApp(id: "1", key: "key", secret: "secret")
    static let authorizationEndpoint = Endpoint(scheme: "http", host: "application", port: 80, target: "/pusher/auth")

    let server: PusherServer
    private let network: VirtualNetwork
    private var simulation: Simulation { self.network.simulation }

    /// Creates the servers and makes them reachable.
    init(on network: VirtualNetwork) {
        self.network = network
        let simulation = network.simulation
        var app = Self.app
        app.profile = simulation.choose([.pusher, .soketi, .reverb, .slanger, .sockudo])
        // A server that keeps few events often has those no longer that a client has missed.
        app.recoveryLimit = simulation.choose([2, 100])
        app.recoveryLifetime = simulation.choose([.seconds(10), .seconds(120)])
        (app.allowsFilters, app.allowsDeltaCompression) = (true, true)
        self.server = PusherServer(app: app, time: simulation, log: .none, seed: simulation.seed &+ 1)
        for host in ["simulated", "other"] {
            network.setServer(SimulatedListener(simulation, self.server.listenerHandler), host: host, port: 80)
        }
        network.setServer(self, host: "application", port: 80)
    }

    func accept(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> UpgradeResult {
        .reject(HTTPResponse(status: 404))
    }

    /// Authorizes a subscription. While the network has faults, this can be slow, be refused, or get no response.
    func respond(to request: HTTPRequestHead, body: [UInt8], _ responder: any HTTPResponder) {
        let fields = PercentEncoding.fields(Substring(decoding: body, as: UTF8.self)) ?? []
        guard let channel = fields.first(where: { $0.name == "channel_name" })?.value,
            let socketID = fields.first(where: { $0.name == "socket_id" })?.value
        else { return self.simulation.fail("an authorization without a channel or socket ID was requested: \(fields)") }
        var response = Self.response(to: PusherAuthorizationRequest(channel: channel, socketID: socketID))
        if self.network.hasFaults {
            if self.simulation.chance(5) { return }
            if self.simulation.chance(10) { response = HTTPResponse(status: self.simulation.choose([403, 500]), text: "not today") }
        }
        self.simulation.schedule(in: self.network.hasFaults ? 1...40_000 : 1...2_000) { [response] in responder.respond(response) }
    }

    static func authorization(for request: PusherAuthorizationRequest) -> PusherChannelAuthorization {
        let channelData = ChannelName.kind(of: request.channel).isPresence ? #"{"user_id":"me"}"# : nil
        let token = ChannelSignature.token(
            key: Self.app.key, secret: Self.app.secret, socketID: request.socketID, channel: request.channel, channelData: channelData)
        return PusherChannelAuthorization(auth: token, channelData: channelData)
    }

    private static func response(to request: PusherAuthorizationRequest) -> HTTPResponse {
        let authorization = Self.authorization(for: request)
        let data = authorization.channelData == nil ? "" : #","channel_data":"{\"user_id\":\"me\"}""#
        return HTTPResponse(status: 200, text: "{\"auth\":\"\(authorization.auth)\"\(data)}")
    }
}
