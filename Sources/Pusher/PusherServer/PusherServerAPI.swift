import RealtimeJSON
import PusherWire
import RealtimeCore

/// The part of the service's HTTP API that publishes.
enum PusherServerAPI {
    struct Publication: Sendable {
        var event: String
        var channels: [String]
        var data: String
        var except: String?
    }

    enum Outcome: Sendable {
        case answer(HTTPResponse)
        case publish(Publication)
    }

    static let accepted = HTTPResponse(status: 200, headers: ["Content-Type": "application/json"], text: "{}")

    static func handle(_ request: HTTPRequestHead, body: [UInt8], app: PusherApp, unixTime: Int64) -> Outcome {
        let parts = request.path.split(separator: "/", omittingEmptySubsequences: true)
        if parts == ["up"] { return .answer(HTTPResponse(status: 200, text: "OK\n")) }
        guard parts.count == 3, parts[0] == "apps", parts[2] == "events" else {
            return self.refuse(404, "There is nothing at \(request.path.prefix(200)). Events are published with POST /apps/{id}/events.")
        }
        guard parts[1] == app.id else { return self.refuse(404, "There is no application with this id.") }
        guard request.method == "POST" else { return self.refuse(405, "Events are published with POST.") }
        switch RequestSignature.check(
            method: request.method, target: request.target, body: body, key: app.key, secret: app.secret, unixTime: unixTime)
        {
        case .refused(let why): return self.refuse(401, why)
        case .accepted: break
        }
        do throws(JSONError) {
            return self.publication(try JSONValue(parsing: body))
        } catch {
            return self.refuse(400, "The body is no JSON: \(error)")
        }
    }

    private static func publication(_ json: JSONValue) -> Outcome {
        guard let event = json["name"]?.string else { return self.refuse(400, "The body has no \"name\".") }
        if let problem = EventName.problem(event) { return self.refuse(400, problem) }
        guard let data = json["data"]?.string else { return self.refuse(400, "The body has no \"data\" that is a string.") }
        guard data.utf8.count <= EventName.maximumDataSize else {
            return self.refuse(413, "The data has \(data.utf8.count) bytes; an event has at most \(EventName.maximumDataSize).")
        }
        let channels: [String]
        if let list = json["channels"]?.array {
            channels = list.compactMap(\.string)
            guard channels.count == list.count else { return self.refuse(400, "The \"channels\" are no list of names.") }
        } else if let channel = json["channel"]?.string {
            channels = [channel]
        } else {
            return self.refuse(400, "The body has neither \"channels\" nor a \"channel\".")
        }
        guard !channels.isEmpty, channels.count <= 100 else { return self.refuse(400, "An event goes to 1 to 100 channels at a time.") }
        for channel in channels {
            if let problem = ChannelName.problem(channel) { return self.refuse(400, problem) }
        }
        return .publish(Publication(event: event, channels: channels, data: data, except: json["socket_id"]?.string))
    }

    private static func refuse(_ status: Int, _ why: String) -> Outcome {
        .answer(HTTPResponse(status: status, headers: ["Content-Type": "text/plain; charset=utf-8"], text: why + "\n"))
    }
}
