import PusherServer
import PusherSwift
import RealtimeSockets

/// Runs a part of an app that was written for PusherSwift. The server runs in the same process, on a port.
@main struct Migration {
    @MainActor static func main() async throws {
        let app = PusherApp.random()
        let server = PusherServer(app: app)
        let address = try await server.start(on: SocketListener())
        let options = PusherClientOptions(host: .host(address.host), port: address.port, useTLS: false)

        let (lines, continuation) = AsyncStream.makeStream(of: String.self)
        let board = PriceBoard(key: app.key, options: options) { continuation.yield($0) }
        board.start()
        for await line in lines {
            print(line)
            switch line {
            case "subscribed to prices": server.publish("price", to: "prices", data: #"{"symbol":"ACME","value":12.5}"#)
            case "price of ACME": board.stop()
            case "disconnecting -> disconnected": continuation.finish()
            default: break
            }
        }
        await server.stop()
    }
}
