import Foundation
import PusherChannels

/// A message of a user. The server adds who sent it.
nonisolated struct Message: Codable, Sendable {
    let text: String
}

/// A chat at the terminal. Start a server, and then the chat in other terminals, once for each user:
///
///     swift run realtime serve pusher --port 8080 --key key --auth-endpoint /pusher/auth
///     swift run --package-path Examples Chat anna
@main struct Chat {
    static func main() async throws {
        guard CommandLine.arguments.count == 2 else {
            print("Usage: Chat NAME")
            exit(2)
        }
        let server = "127.0.0.1:8080"
        var configuration = PusherConfiguration(key: "key", host: "127.0.0.1", port: 8080, useTLS: false)
        // A real server finds out who the user is, from a token or a cookie. This one believes the client.
        let endpoint = try Endpoint("http://\(server)/pusher/auth")
        configuration.authorizer = .endpoint(PusherAuthorizationEndpoint(endpoint, parameters: ["user_id": CommandLine.arguments[1]]))
        configuration.log = .none

        let client = PusherClient(configuration)
        let room = try client.subscribe("presence-chat")
        let updates = client.updates()
        client.connect()
        // Reading from the terminal blocks, so it has a thread of its own.
        Thread.detachNewThread {
            while let line = readLine() {
                do {
                    try room.trigger("client-message", Message(text: line))
                } catch {
                    print("* \(error)")
                }
            }
            client.disconnect()
        }
        for await update in updates {
            switch update {
            case .state(.disconnected(let error?)), .state(.failed(let error)):
                print("* \(error)")
                return
            case .state(.disconnected(nil)): return
            case .state(let state): print("* \(state.name)")
            case .members(_, .subscribed(let members)): print("* in the room: \(members.map(\.id).joined(separator: ", "))")
            case .members(_, .resubscribed(_, let joined, let left)):
                for member in joined { print("* \(member.id) joined") }
                for member in left { print("* \(member.id) left") }
            case .gap: print("* messages of the last moments may be missing")
            case .members(_, .joined(let member)): print("* \(member.id) joined")
            case .members(_, .left(let member)): print("* \(member.id) left")
            case .error(let error): print("* \(error)")
            case .event(let event) where event.name == "client-message":
                if let message = try? event.decode(Message.self) { print("\(event.userID ?? "unknown"): \(message.text)") }
            default: break
            }
        }
    }
}
